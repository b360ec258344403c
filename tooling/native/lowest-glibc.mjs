/**
 * The lowest version of glibc that the platform packages support. They are built on Debian 12, whose compiler
 * and libraries need symbols of this version. tooling/release checks that no file of the packages needs a
 * later version.
 */
export const lowestGlibc = '2.34';
