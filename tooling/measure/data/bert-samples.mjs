// Measures how many samples per second BERT's dataset makes on one core, after checking correctness. Exits
// with status 1 if fewer BERT samples than required are made in one second of processor time. Usage: npm run
// dev -- bert-samples (it uses the sources of the package, so no build is needed)
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSentenceSplitter } from '../../../packages/data/src/corpora/sentence-splitter.ts';
import {
  createBatchLoader,
  createTokenizer,
  IndexedDatasetWriter,
  openBertDataset,
} from '../../../packages/data/src/index.ts';
import { buildSentenceMapping } from '../../../packages/data/src/masked/sentence-mapping.ts';
import { RandomState } from '../../../packages/data/src/random/random-state.ts';

const directory = mkdtempSync(join(tmpdir(), 'mtl-bench-'));
const batchSize = 8;
const report = (name, value, unit) =>
  console.log(`${name.padEnd(58)} ${value.toFixed(0).padStart(10)} ${unit}`);

const mapping = buildSentenceMapping({
  documentIndices: [0, 3, 5, 9],
  sizes: Int32Array.of(5, 6, 7, 8, 4, 3, 9, 2, 6),
  numSamples: 12,
  maximumLength: 20,
  shortSequenceProbability: 0.1,
  seed: 1234,
  minimumSentences: 2,
});
assert.deepEqual([...mapping.subarray(0, 6)], [0, 3, 20, 5, 9, 20]);
assert.equal(mapping.length, 39);

// a vocabulary of bert-base's size, in which a fifth of the tokens continue words; documents have 20 to 80
// sentences with 5 to 45 tokens each
const special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];
const first = special.length;
const words = Array.from({ length: 30_522 - first }, (_, i) => (i % 5 === 0 ? `##p${i}` : `w${i}`));
const vocabFile = join(directory, 'vocab.txt');
writeFileSync(vocabFile, [...special, ...words].join('\n'));
const tokenizer = await createTokenizer({ type: 'BertWordPieceLowerCase', vocabFile });
const random = new RandomState(1);
const prefix = join(directory, 'sentences');
const writer = new IndexedDatasetWriter({ prefix, dtype: 'uint16' });
for (let document = 0; document < 3000; document++) {
  for (let sentence = 20 + random.interval(60); sentence > 0; sentence--) {
    const length = 5 + random.interval(40);
    writer.addSequence(Uint16Array.from({ length }, () => first + random.interval(words.length - 1)));
  }
  writer.endDocument();
}
writer.finish();

/**
 * Returns the samples per second of the fastest of three runs, measured by elapsed time and by processor
 * time.
 */
function measure(dataset, numSamples) {
  let clock = 0;
  let processor = 0;
  for (let run = 0; run < 3; run++) {
    const started = performance.now();
    const before = process.cpuUsage();
    for (let sample = 0; sample < numSamples; sample += batchSize) {
      const batch = dataset.createBatch(batchSize);
      for (let row = 0; row < batchSize; row++) dataset.fillRow({ sample: sample + row, batch, row });
      assert.equal(dataset.finishBatch(batch).batchSize, batchSize);
    }
    const { user, system } = process.cpuUsage(before);
    clock = Math.max(clock, (1000 * numSamples) / (performance.now() - started));
    processor = Math.max(processor, (1e6 * numSamples) / (user + system));
  }
  return { clock, processor };
}

console.log(
  `load ${loadavg()[0].toFixed(1)}: where it is above 1, the processor's seconds say more than the clock`,
);
for (const [sequenceLength, numSamples, asked] of [
  [128, 40_000, 20_000],
  [512, 16_000, 5_000],
]) {
  const options = { prefix, split: 'train', sequenceLength, seed: 1234, tokenizer, cacheDirectory: false };
  const started = performance.now();
  const bert = openBertDataset({ ...options, numSamples });
  report(`mapping of ${bert.length} samples, S ${sequenceLength}`, performance.now() - started, 'ms');
  const { clock, processor } = measure(bert, numSamples);
  report(`BERT samples, S ${sequenceLength} (asked: ${asked})`, clock, 'a second');
  report('', processor, 'a second of processor time');
  if (!(processor >= asked)) {
    console.error(`missed: ${Math.round(processor)} samples a second of processor time, asked: ${asked}`);
    process.exitCode = 1;
  }
  const loader = createBatchLoader({ dataset: bert, sampler: { kind: 'cyclic', microBatchSize: batchSize } });
  await loader.next();
  const steps = 100;
  for (let step = 0; step < steps; step++) {
    const until = performance.now() + 5;
    while (performance.now() < until);
    await loader.next();
  }
  const waited = (1000 * loader.statistics.waitedMilliseconds) / steps;
  report(`waiting for ${batchSize} samples in a thread, steps of 5 ms`, waited, 'us a step');
  await loader.close();
  bert.close();
}

const splitSentences = createSentenceSplitter();
const text =
  'Mr. Smith wrote a letter of some length to Dr. J. Brown. "Is it true?" he asked. It was.\n'.repeat(20_000);
const before = process.cpuUsage();
assert.equal(splitSentences(text).length, 60_000);
const { user, system } = process.cpuUsage(before);
report('sentence splitting', text.length / (user + system), 'MB/s of processor time');
rmSync(directory, { recursive: true });
