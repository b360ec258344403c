import { fileURLToPath } from 'node:url';

/** The folder in this package with the files for web pages that run a model. */
export const pageFiles: string = fileURLToPath(new URL('../page/', import.meta.url));
