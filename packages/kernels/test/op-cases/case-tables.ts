import { readdirSync } from 'node:fs';
import type { CaseTable } from './op-case.js';

const directory = new URL('.//', import.meta.url);

/** Every table next to this file: a new `<op>.cases.ts` is found by its name. */
export const caseTables: readonly CaseTable[] = await Promise.all(
  readdirSync(directory)
    .filter((file) => file.endsWith('.cases.ts'))
    .map((file) => import(new URL(file, directory).href) as Promise<CaseTable>),
);
