#!/usr/bin/env node
/**
 * node tooling/measure/gpt-train/sampling-settings.mjs --load DIR [--load DIR ...] [--show]
 *
 * Continues prompts with trained models of the default preset, using several settings of temperature and
 * top-p. Prints for each setting: the fraction of distinct word n-grams in a continuation (mean over
 * continuations), the fraction of 4-grams that repeat in the same continuation, and the fraction of words
 * that do not occur in the corpus. Prints the same for the corpus's held-out text. With --show, also prints
 * the continuations. Results are in docs/studies/default-presets.md.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { generateAll } from '@mtl/inference';
import { loadGptForInference } from '@mtl/runs';
import { defaultCorpusFiles } from '@mtl/runs/internal';

const { values: options } = parseArgs({
  options: { load: { type: 'string', multiple: true }, show: { type: 'boolean', default: false } },
});
const settings = [
  { temperature: 0.7, topP: 0.9 },
  { temperature: 0.8, topP: 0.95 },
  { temperature: 1, topP: 1 },
];
const prompts = [
  'The state of the Union is',
  'To the Congress of the United States:',
  'I recommend that',
  'My fellow Americans,',
];
const [numSamples, maxNewTokens] = [4, 150];

const splitWords = (text) => text.toLowerCase().match(/[\p{L}’']+/gu) ?? [];
const files = defaultCorpusFiles();
const numTraining = Math.round(0.95 * files.length); // --split 95,5,0
const readText = (part) => part.map((file) => readFileSync(file, 'utf8')).join('\n');
const known = new Set(splitWords(readText(files.slice(0, numTraining))));
const mean = (values) => values.reduce((total, value) => total + value, 0) / values.length;

function ngrams(words, n) {
  return words.slice(n - 1).map((_, at) => words.slice(at, at + n).join(' '));
}

/** Returns the measured fractions for the given texts, as means over the texts. */
function measure(texts) {
  const lists = texts.map(splitWords);
  const distinct = (n) =>
    mean(lists.map((words) => new Set(ngrams(words, n)).size / ngrams(words, n).length));
  return {
    words: mean(lists.map((words) => words.length)),
    distinct1: distinct(1),
    distinct2: distinct(2),
    repeated4: 1 - distinct(4),
    unknown: mean(lists.map((words) => words.filter((word) => !known.has(word)).length / words.length)),
  };
}

function report(name, { words, ...shares }) {
  const percents = Object.entries(shares).map(([key, share]) => `${key} ${(100 * share).toFixed(1)} %`);
  console.log(`${name}: ${words.toFixed(0)} words a text, ${percents.join(', ')}`);
}

const models = [];
for (const load of options.load) models.push(await loadGptForInference({ load, device: 'cpu' }));
let wordsOfContinuation = 0;
for (const sampling of settings) {
  const texts = [];
  for (const [at, { model, tokenizer, endTokens }] of models.entries()) {
    const continuations = await generateAll({
      model,
      prompts: prompts.flatMap((prompt) => Array(numSamples).fill([...tokenizer.encode(prompt)])),
      sampleNumbers: prompts.flatMap(() => Array.from({ length: numSamples }, (_, sample) => sample)),
      maxNewTokens,
      sampling,
      seed: 0,
      stopTokens: endTokens,
      whenContextIsFull: 'slide',
    });
    for (const [index, { tokens }] of continuations.entries()) {
      const text = tokenizer.decode(tokens.filter((token) => !endTokens.includes(token)));
      if (splitWords(text).length >= 20) texts.push(text);
      const prompt = prompts[Math.floor(index / numSamples)];
      if (options.show && index % numSamples === 0)
        console.log(`\n[${options.load[at]}, ${sampling.temperature}/${sampling.topP}] ${prompt}${text}\n`);
    }
  }
  const measured = measure(texts);
  wordsOfContinuation = Math.round(measured.words);
  report(`temperature ${sampling.temperature}, top-p ${sampling.topP}, ${texts.length} texts`, measured);
}
const heldOut = splitWords(readText(files.slice(numTraining)));
const pieces = Array.from({ length: 100 }, (_, at) => {
  const start = Math.floor((at * (heldOut.length - wordsOfContinuation)) / 100);
  return heldOut.slice(start, start + wordsOfContinuation).join(' ');
});
report('held-out text, 100 texts', measure(pieces));
for (const loaded of models) loaded.dispose();
