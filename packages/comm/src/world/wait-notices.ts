/**
 * When a process that waits for others at the start says for whom: `first` after that time, which is longer
 * than a good start takes, then every `next`. Milliseconds.
 */
export const waitNoticesMs = { first: 5_000, next: 60_000 } as const;
