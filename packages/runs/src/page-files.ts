import { fileURLToPath } from 'node:url';

/** The folder of this package with the files of pages that answer with a model. */
export const pageFiles: string = fileURLToPath(new URL('../page/', import.meta.url));
