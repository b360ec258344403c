/** The lines of a metrics.jsonl. */
export declare function readMetrics(path: string): Array<Record<string, number>>;
