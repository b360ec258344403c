/** Polls for something that another process does; rejects after `limitMs`, 60 s if nothing is said. */
export declare function until(reached: () => boolean, options?: { readonly limitMs?: number }): Promise<void>;
