#!/usr/bin/env node
/**
 * node run-model.mjs FOLDER: answers questions about GGUF files with node-llama-cpp, which is installed in
 * FOLDER. Reads the questions as a JSON list from standard input, and writes the answers as a JSON list to
 * standard output. It runs as a separate process, so that a model that crashes llama.cpp causes an error
 * instead of ending the test run.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';

const [folder] = process.argv.slice(2);
const questions = JSON.parse(await text(process.stdin));

/** Returns the log-probabilities of all tokens after each position of a sequence. */
async function logProbabilities(sequence, tokens) {
  const asked = tokens.map((token) => [token, { generateNext: { probabilities: true } }]);
  const outputs = await sequence.controlledEvaluate(asked);
  return outputs.map(({ next }) => {
    const row = [];
    for (const [token, probability] of next.probabilities) row[token] = Math.log(probability);
    return row;
  });
}

/** Returns the next `count` tokens after `tokens` if the most likely token is always chosen. */
async function greedy(sequence, tokens, count) {
  const found = [];
  for await (const token of sequence.evaluate(tokens, { temperature: 0, yieldEogToken: true })) {
    found.push(token);
    if (found.length === count) break;
  }
  return found;
}

async function answer(llama, question) {
  const { path, sequences = [], texts = [], adapter, embed = [] } = question;
  const model = await llama.loadModel({
    modelPath: path,
    gpuLayers: 0,
    vocabOnly: question.vocabOnly ?? false,
  });
  const answers = {
    texts: texts.map((one) => model.tokenize(one, question.specialTokens ?? false)),
    probabilities: [],
    greedy: [],
    embeddings: [],
  };
  const contextOptions = {
    experimentalKvCacheKeyType: 'F32',
    experimentalKvCacheValueType: 'F32',
    flashAttention: false,
    threads: 1,
    ...(adapter === undefined ? {} : { lora: { adapters: [{ filePath: adapter, scale: 1 }] } }),
  };
  for (const { tokens, count } of sequences) {
    const context = await model.createContext({
      ...contextOptions,
      contextSize: Math.max(64, tokens.length + (count ?? 0)),
    });
    const sequence = context.getSequence();
    if (count === undefined) answers.probabilities.push(await logProbabilities(sequence, tokens));
    else answers.greedy.push(await greedy(sequence, tokens, count));
    await context.dispose();
  }
  if (embed.length > 0) {
    const context = await model.createEmbeddingContext({ threads: 1 });
    for (const one of embed) answers.embeddings.push([...(await context.getEmbeddingFor(one)).vector]);
  }
  await model.dispose();
  return answers;
}

const require = createRequire(join(folder, 'package.json'));
const llamaCpp = await import(pathToFileURL(require.resolve('node-llama-cpp')).href);
const llama = await llamaCpp.getLlama({
  gpu: false,
  build: 'never',
  skipDownload: true,
  logLevel: 'error',
});
const answers = [];
for (const question of questions) answers.push(await answer(llama, question));
process.stdout.write(JSON.stringify(answers), () => process.exit(0));
