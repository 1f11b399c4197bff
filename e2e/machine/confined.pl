# confined.pl - tries what the unit of the package must prevent, from inside it. Ends with an error if something succeeds, or fails
# for another reason. The numbers of system calls are those of x86-64.
use strict;
use warnings;
use Errno qw(EACCES EAFNOSUPPORT EPERM EROFS);
use Socket;

my $wrong = 0;

# Judges an attempt that should have failed so.
sub refused {
	my ($what, $succeeded, $expected) = @_;
	my $error = $!;
	return if !$succeeded && $error == $expected;
	print "NOT CONFINED: $what: ", $succeeded ? 'it succeeds' : $error, "\n";
	$wrong = 1;
}

# Makes a system call.
sub call { my $result = syscall(shift, @_); return $result != -1 }

refused('writing to the system', open(my $file, '>', '/run/lock/probe'), EROFS);
refused('reading the homes', opendir(my $homes, '/home'), EACCES);
refused('memory that is writable and executable (mmap)', call(9, 0, 4096, 7, 0x22, -1, 0), EPERM);
refused('a system call that services do not need (ptrace)', call(101, 0, 0, 0, 0), EPERM);
refused('a user namespace (unshare)', call(272, 0x10000000), EPERM);
refused('another execution domain (personality)', call(135, 8), EPERM);
refused('a packet socket', socket(my $packets, 17, SOCK_RAW, 0), EAFNOSUPPORT);
my $name = "/tmp/probe";
open(my $program, '>', $name) or die "$name: $!";
refused('a file with the set-user-ID bit', chmod(04755, $name), EPERM);
unlink $name;
for my $hidden ('/proc/1/status', '/dev/ubda') {
	next unless -e $hidden;
	print "NOT CONFINED: it sees $hidden\n";
	$wrong = 1;
}
exit $wrong;
