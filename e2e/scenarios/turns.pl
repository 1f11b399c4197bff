# turns.pl FILE ROUNDS: adds one, under a lock, to the number that FILE is full of. The file stays open all the time, so
# that what others have written shows only if taking the lock makes it show, and keeping it makes it theirs to see.
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
    die "round $round: numbers of different turns\n" if grep { $_ != $number } @numbers;
    sysseek($file, 0, SEEK_SET);
    syswrite($file, pack('L*', ($number + 1) x NUMBERS)) == 4 * NUMBERS or die "write: $!\n";
    lock_it(F_UNLCK);
    select(undef, undef, undef, 0.05);
}
