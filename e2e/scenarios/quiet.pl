# quiet.pl NAME SECONDS: a quiet tenant's work: makes a small file, syncs it, reads it back, renames and removes it, a few times a second.
# Prints the number of rounds, and how many milliseconds the middle one and the slowest of twenty took.
use strict;
use Fcntl;
use IO::Handle;
use Time::HiRes qw(time sleep);

my ($name, $seconds) = @ARGV;
my ($end, @took) = time() + $seconds;
while (time() < $end) {
    my ($began, $data) = (time(), pack('N*', map { int(rand(2**32)) } 1 .. 4096));
    my ($file, $other) = ("$name-file", "$name-renamed");
    sysopen(my $out, $file, O_RDWR | O_CREAT | O_EXCL) or die "create: $!\n";
    syswrite($out, $data) == length($data) or die "write: $!\n";
    $out->sync or die "sync: $!\n";
    close($out) or die "close: $!\n";
    rename($file, $other) or die "rename: $!\n";
    sysopen(my $in, $other, O_RDONLY) or die "open: $!\n";
    sysread($in, my $back, 2 * length($data)) == length($data) or die "read: $!\n";
    die "other data came back\n" if $back ne $data;
    close($in);
    unlink($other) or die "remove: $!\n";
    push @took, 1000 * (time() - $began);
    sleep(0.05);
}
my @sorted = sort { $a <=> $b } @took;
printf("%d %.1f %.1f\n", scalar(@sorted), $sorted[@sorted / 2], $sorted[@sorted * 0.95]);
