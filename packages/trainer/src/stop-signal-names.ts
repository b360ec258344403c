/**
 * Signals that ask for an orderly stop: of a terminal, of a launcher or scheduler, and of a connection that
 * is lost.
 */
export const stopSignalNames = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
