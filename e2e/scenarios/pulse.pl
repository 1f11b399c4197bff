# pulse.pl DIRECTORY OUT NAME: makes, renames and appends to files of its own in DIRECTORY until OUT/stop exists, each operation once
# and durable before the next. None may fail, be lost or be done twice, whatever becomes of the server. For each number that
# OUT/round shows, the longest operation is written to OUT/stall-NAME, in seconds.
use strict;
use Fcntl qw(:DEFAULT);
use IO::Handle;
use Time::HiRes qw(time);

my ($directory, $out, $name) = @ARGV;
mkdir "$directory/$name" or die "mkdir $name: $!\n";
chdir "$directory/$name" or die "chdir $name: $!\n";
sysopen(my $log, 'log', O_WRONLY | O_CREAT | O_EXCL | O_APPEND) or die "create log: $!\n";
open(my $stalls, '>', "$out/stall-$name") or die "stall-$name: $!\n";
$stalls->autoflush;

sub round {
    open(my $file, '<', "$out/round") or return 0;
    return <$file> // 0;
}

my ($number, $round, $longest) = (0, 0, 0);

# Does one operation and notes how long it takes.
sub timed {
    my $act = shift;
    my $begun = time;
    $act->();
    my $took = time - $begun;
    $longest = $took if $took > $longest;
}

until (-e "$out/stop") {
    my $now = round() + 0;
    if ($now != $round) {
        printf $stalls "%d %.3f\n", $round, $longest;
        ($round, $longest) = ($now, 0);
    }
    $number++;
    timed(sub { sysopen(my $file, "new-$number", O_WRONLY | O_CREAT | O_EXCL) or die "create $number: $!\n"; close($file) or die "close $number: $!\n" });
    timed(sub { rename("new-$number", "kept-$number") or die "rename $number: $!\n" });
    timed(sub { syswrite($log, sprintf("%09d\n", $number)) == 10 or die "append $number: $!\n"; $log->sync or die "fsync $number: $!\n" });
    timed(sub { unlink('kept-' . ($number - 20)) or die "unlink: $!\n" }) if $number > 20;
    select(undef, undef, undef, 0.02);
}
printf $stalls "%d %.3f\n", $round, $longest;
close($log) or die "close log: $!\n";

# What was acknowledged is there, once.
open(my $drop, '>', '/proc/sys/vm/drop_caches') or die "drop_caches: $!\n";
syswrite($drop, "3\n") or die "drop_caches: $!\n";
open(my $again, '<', 'log') or die "open log: $!\n";
my @lines = <$again>;
@lines == $number or die scalar(@lines) . " lines, not $number\n";
$lines[$_] == $_ + 1 or die "line $_ is $lines[$_]" for 0 .. $#lines;
opendir(my $names, '.') or die "opendir: $!\n";
my @names = sort grep { !/^\./ } readdir $names;
my $first = $number > 20 ? $number - 19 : 1;
my @expected = sort('log', map { "kept-$_" } $first .. $number);
"@names" eq "@expected" or die "names are @names, not @expected\n";
print "$number rounds of operations\n";
