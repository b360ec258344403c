/**
 * The lowest glibc version that the platform packages support. They are built on Debian 12, whose compiler
 * and libraries need symbols from this version. tooling/release checks that no file in the packages needs a
 * later version.
 */
export const lowestGlibc = '2.34';
