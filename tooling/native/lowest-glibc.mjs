/**
 * The lowest version of glibc that the platform packages run on. They are built on Debian 12, whose compiler
 * and libraries ask for symbols of this version; tooling/release checks that nothing in them asks for more.
 */
export const lowestGlibc = '2.34';
