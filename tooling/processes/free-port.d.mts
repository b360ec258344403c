/** A port of the loopback that no process listens on. */
export declare function freePort(): Promise<number>;
