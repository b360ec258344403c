#!/usr/bin/env node
/**
 * node run-model.mjs FOLDER: answers questions about ONNX directories with transformers.js, which is
 * installed in FOLDER. Reads the questions as a JSON list from standard input, and writes the answers as a
 * JSON list to standard output.
 */
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { answerQuestions } from './answer-questions.mjs';

const [folder] = process.argv.slice(2);
const questions = JSON.parse(await text(process.stdin));
const require = createRequire(join(folder, 'package.json'));
const path = require.resolve('@huggingface/transformers').replace(/cjs$/, 'mjs');
const library = await import(pathToFileURL(path).href);
library.env.allowRemoteModels = false;
library.env.useFSCache = false;
const placed = questions.map(({ directory, ...question }) => ({
  ...question,
  name: basename(directory),
  parent: `${dirname(directory)}/`,
}));
process.stdout.write(await answerQuestions(library, placed), () => process.exit(0));
