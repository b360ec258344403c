/** Exit status of a program that was given wrong input, which stays wrong. */
export const wrongInputStatus = 2;
