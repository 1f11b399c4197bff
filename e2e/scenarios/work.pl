# work.pl WORK DIRECTORY COUNT [BYTES]: does one piece of work COUNT times, without any other system calls on files.
#
#   make     makes COUNT files of BYTES
#   read     opens each of them, compares its content, and closes it
#   rewrite  opens each of them, replaces its content, and closes it
#   remove   removes each of them
#   append   opens a new file, and appends COUNT times BYTES, each followed by fsync(2)
#   lock     opens the first file to read and to write, and locks and frees a range of it COUNT times
use strict;
use warnings;
use Fcntl qw(:DEFAULT SEEK_SET);
use IO::Handle;

my ($work, $directory, $count, $bytes) = @ARGV;
$bytes //= 0;

sub named { return "$directory/file-$_[0]" }

sub content {
	my ($number) = @_;
	return substr sprintf("%015d\n", $number) x ($bytes / 16 + 1), 0, $bytes;
}

sub opened {
	my ($path, $flags) = @_;
	sysopen my $file, $path, $flags, 0644 or die "open $path: $!\n";
	return $file;
}

sub written {
	my ($file, $data) = @_;
	(syswrite($file, $data) // -1) == length $data or die "write: $!\n";
}

sub closed { close $_[0] or die "close: $!\n" }

sub locked {
	my ($file, $type) = @_;
	fcntl $file, F_SETLK, pack 's s x4 q q i x4', $type, SEEK_SET, 0, 100, 0 or die "lock: $!\n";
}

my %each = (
	make => sub {
		my $file = opened(named($_[0]), O_WRONLY | O_CREAT | O_TRUNC);
		written($file, content($_[0]));
		closed($file);
	},
	read => sub {
		my $file = opened(named($_[0]), O_RDONLY);
		defined sysread $file, my $data, $bytes + 1 or die "read: $!\n";
		$data eq content($_[0]) or die named($_[0]) . " has other content\n";
		closed($file);
	},
	rewrite => sub {
		my $file = opened(named($_[0]), O_WRONLY | O_TRUNC);
		written($file, content($_[0]));
		closed($file);
	},
	remove => sub { unlink named($_[0]) or die "unlink: $!\n" },
);

my %all = (
	append => sub {
		my $file = opened("$directory/appended", O_WRONLY | O_CREAT | O_APPEND);
		for my $number (1 .. $count) {
			written($file, content($number));
			$file->sync or die "fsync: $!\n";
		}
		closed($file);
	},
	lock => sub {
		my $file = opened(named(1), O_RDWR);
		for (1 .. $count) {
			locked($file, F_WRLCK);
			locked($file, F_UNLCK);
		}
		closed($file);
	},
);

if (my $once = $all{$work}) {
	$once->();
} else {
	my $each = $each{$work} or die "unknown work $work\n";
	$each->($_) for 1 .. $count;
}
