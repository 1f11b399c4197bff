# call.pl: makes system calls that no tool of the guest makes (x86_64). On failure, prints the name of the error.
#   map FILE                                       prints the data ranges by SEEK_DATA and SEEK_HOLE: START-END ...
#   copy FROM OFFSET TO OFFSET LENGTH              copy_file_range
#   scatter FILE COUNT                             writes COUNT different extents of 4 KiB with holes of 4 KiB between
#   clone FROM OFFSET TO OFFSET LENGTH             FICLONERANGE
#   set FILE NAME VALUE [create|replace]           setxattr
#   get FILE NAME | list FILE | remove FILE NAME   getxattr, listxattr, removexattr
use strict;
use Errno;
use Fcntl;

my ($call, @words) = @ARGV;

sub fail {
    my ($error) = sort grep { $!{$_} } keys %!;
    print "$error\n";
    exit 1;
}

# Makes a system call and returns its result; -1 is an error.
sub ask {
    my $result = syscall(shift, @_);
    fail() if $result == -1;
    return $result;
}

sub opened {
    my ($path, $mode) = @_;
    sysopen(my $file, $path, $mode) or fail();
    return $file;
}

if ($call eq 'map') {
    my $file = opened($words[0], O_RDONLY);
    my ($at, @map) = (0);
    while (defined(my $start = sysseek($file, $at, 3))) {
        $at = sysseek($file, $start, 4) or fail();
        push @map, ($start + 0) . "-$at";
    }
    fail() unless $!{ENXIO};
    print "@map\n";
} elsif ($call eq 'copy') {
    my ($from, $to) = (opened($words[0], O_RDONLY), opened($words[2], O_WRONLY | O_CREAT));
    my ($in, $out, $left) = (pack('q', $words[1]), pack('q', $words[3]), $words[4]);
    while ($left > 0) {
        my $done = ask(326, fileno($from), $in, fileno($to), $out, $left, 0);
        last if $done == 0;
        $left -= $done;
    }
    exit($left == 0 ? 0 : 1);
} elsif ($call eq 'scatter') {
    my $to = opened($words[0], O_WRONLY | O_CREAT);
    for my $extent (0 .. $words[1] - 1) {
        sysseek($to, $extent * 8192, 0);
        syswrite($to, pack('N', $extent) x 1024) == 4096 or fail();
    }
    close($to) or fail();
} elsif ($call eq 'clone') {
    my ($from, $to) = (opened($words[0], O_RDONLY), opened($words[2], O_WRONLY | O_CREAT));
    my $range = pack('q Q Q Q', fileno($from), $words[1], $words[4], $words[3]);
    ioctl($to, 0x4020940d, $range) or fail();
} elsif ($call eq 'set') {
    my %flags = ('' => 0, create => 1, replace => 2);
    ask(188, $words[0], $words[1], $words[2], length $words[2], $flags{ $words[3] // '' });
} elsif ($call eq 'get') {
    my $value = "\0" x 65536;
    my $length = ask(191, $words[0], $words[1], $value, length $value);
    print substr($value, 0, $length), "\n";
} elsif ($call eq 'list') {
    my $names = "\0" x 65536;
    my $length = ask(194, $words[0], $names, length $names);
    print join(' ', sort grep { /^user\./ } split(/\0/, substr($names, 0, $length))), "\n";
} elsif ($call eq 'remove') {
    ask(197, $words[0], $words[1]);
} else {
    die "no call $call\n";
}
