# locked.pl FILE TYPE START LENGTH HOW [COMMAND]: locks a range for reading (r) or writing (w), with waiting (wait) or
# without (try), and runs COMMAND while holding the lock. Exits with 1 if a lock conflicts, with 2 if COMMAND fails.
use strict;
use Errno;
use Fcntl qw(:DEFAULT SEEK_SET);

my ($file, $type, $start, $length, $how, $command) = @ARGV;
sysopen(my $open, $file, O_RDWR | O_CREAT) or die "open $file: $!\n";
my $lock = pack('s s x4 q q i x4', $type eq 'w' ? F_WRLCK : F_RDLCK, SEEK_SET, $start, $length, 0);
fcntl($open, $how eq 'wait' ? F_SETLKW : F_SETLK, $lock) or exit($!{EAGAIN} || $!{EACCES} ? 1 : die "lock $file: $!\n");
exit(defined $command && system('/bin/sh', '-c', $command) ? 2 : 0);
