/** Where a command is, as a shell would find it, or undefined; daemons are in sbin. */
export declare function commandPath(name: string): string | undefined;
