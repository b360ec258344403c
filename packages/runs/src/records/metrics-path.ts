import { join } from 'node:path';

/** The file of metrics in a run folder. */
export const metricsPath = (directory: string): string => join(directory, 'metrics.jsonl');
