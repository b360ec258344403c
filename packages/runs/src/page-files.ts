import { fileURLToPath } from 'node:url';

/** The folder of this package with the files of web pages that run a model. */
export const pageFiles: string = fileURLToPath(new URL('../page/', import.meta.url));
