/** A port of the loopback that nobody listens on. */
export declare function freePort(): Promise<number>;
