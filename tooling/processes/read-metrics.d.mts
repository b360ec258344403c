/** The steps in a metrics.jsonl, which holds records of evaluations too. */
export declare function readMetrics(path: string): Array<Record<string, number>>;
