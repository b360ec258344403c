import { join } from 'node:path';

/** The folder with the checkpoints and results of a seed. */
export const seedDirectory = (save: string, seed: number): string => join(save, `seed-${seed}`);

/** The file with the results of a seed. */
export const resultPath = (directory: string): string => join(directory, 'result.json');
