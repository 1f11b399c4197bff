# turns.pl FILE ROUNDS: increments all copies of a number in FILE under a lock. The file stays open, so another client's
# writes are visible only if locking invalidates the cache, and its own only if unlocking writes them back.
use strict;
use Fcntl qw(:DEFAULT SEEK_SET);

use constant NUMBERS => 5000;
my ($path, $rounds) = @ARGV;
sysopen(my $file, $path, O_RDWR | O_CREAT) or die "open $path: $!\n";

sub lock_it {
    my $lock = pack('s s x4 q q i x4', shift, SEEK_SET, 0, 0, 0);
    fcntl($file, F_SETLKW, $lock) or die "lock: $!\n";
}

for my $round (1 .. $rounds) {
    lock_it(F_WRLCK);
    sysseek($file, 0, SEEK_SET);
    my $length = sysread($file, my $data, 4 * NUMBERS) // die "read: $!\n";
    my @numbers = $length ? unpack('L*', $data) : (0) x NUMBERS;
    my ($number) = @numbers;
    die "round $round: " . scalar(@numbers) . " numbers\n" if @numbers != NUMBERS;
    die "round $round: numbers of different rounds\n" if grep { $_ != $number } @numbers;
    sysseek($file, 0, SEEK_SET);
    syswrite($file, pack('L*', ($number + 1) x NUMBERS)) == 4 * NUMBERS or die "write: $!\n";
    lock_it(F_UNLCK);
    select(undef, undef, undef, 0.05);
}
