# kept.pl FILE OPENED GONE: opens FILE, creates OPENED, and waits for GONE, which appears after FILE has lost its name.
# The open file must be readable and writable as before.
use strict;
use Digest::SHA;
use Fcntl qw(:DEFAULT SEEK_SET);
use IO::Handle;

my ($path, $opened, $gone) = @ARGV;
sysopen(my $file, $path, O_RDWR) or die "open $path: $!\n";

# Digest of the server's data, bypassing the client's cache.
sub digest {
    open(my $drop, '>', '/proc/sys/vm/drop_caches') or die "drop_caches: $!\n";
    syswrite($drop, "3\n") or die "drop_caches: $!\n";
    my $digest = Digest::SHA->new(256);
    sysseek($file, 0, SEEK_SET);
    while (my $length = sysread($file, my $data, 1 << 20) // die "read $path: $!\n") { $digest->add($data) }
    return $digest->hexdigest;
}

my $before = digest();
open(my $mark, '>', $opened) or die "$opened: $!\n";
select(undef, undef, undef, 0.1) until -e $gone;
digest() eq $before or die "$path differs without its name\n";

my $piece = join('', map { chr(rand 256) } 1 .. 100_000);
sysseek($file, 1_000_001, SEEK_SET);
syswrite($file, $piece) == length $piece or die "write $path: $!\n";
$file->sync or die "fsync $path: $!\n";
digest() ne $before or die "$path was not written\n";
sysseek($file, 1_000_001, SEEK_SET);
sysread($file, my $again, length $piece) == length $piece or die "read $path: $!\n";
$again eq $piece or die "$path: data written without its name differs\n";
close($file) or die "close $path: $!\n";
