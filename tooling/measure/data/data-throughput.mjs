// Measures the throughput of the data pipeline, after checking correctness. Usage: npm run dev --
// data-throughput (it uses the sources of the package, so no build is needed)
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import {
  createBatchLoader,
  createTokenizer,
  IndexedDatasetWriter,
  openGptDataset,
  prepareDataset,
  readDocuments,
  trainByteLevelBpe,
} from '../../../packages/data/src/index.ts';
import { buildGptIndices } from '../../../packages/data/src/samples/gpt-indices.ts';

const candidates = ['../../../../shared/data/wikitext2_valid.txt', '../../../LICENSE'];
const textFile = candidates.map((path) => new URL(path, import.meta.url)).find(existsSync);
const text = readFileSync(textFile, 'utf8');
const megabytes = Buffer.byteLength(text) / 1e6;
const directory = mkdtempSync(join(tmpdir(), 'mtl-bench-'));
const report = (name, value, unit) =>
  console.log(`${name.padEnd(58)} ${value.toFixed(1).padStart(10)} ${unit}`);

/** Returns the time of the fastest of `runs` runs, in seconds. */
async function fastest(runs, run) {
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < runs; i++) {
    const started = performance.now();
    await run();
    best = Math.min(best, (performance.now() - started) / 1000);
  }
  return best;
}

const golden = buildGptIndices({
  sizes: Int32Array.of(5, 3, 7, 4),
  documents: { first: 0, end: 4 },
  sequenceLength: 4,
  seed: 1234,
});
assert.deepEqual([...golden.shuffleIndex], [1, 2, 3, 0]);
const gpt2 = await createTokenizer({ type: 'GPT2BPETokenizer' });
assert.equal(gpt2.decode(gpt2.encode(text)), text);

console.log(`${textFile}: ${megabytes.toFixed(2)} MB`);
report('GPT-2 encoding, one thread', megabytes / (await fastest(5, () => gpt2.encode(text))), 'MB/s');
const lines = text.split(/(?<=\n)/);
const training = await fastest(3, () => trainByteLevelBpe({ texts: lines, vocabularySize: 8000 }));
report('training of byte-level BPE, vocabulary 8000', megabytes / training, 'MB/s');

const jsonl = join(directory, 'corpus.jsonl');
const copies = Math.ceil(32 / megabytes);
writeFileSync(jsonl, `${JSON.stringify({ text })}\n`.repeat(copies));
for (const workers of [0, 1, 2]) {
  const options = {
    inputs: [jsonl],
    outputPrefix: join(directory, 'out'),
    tokenizer: gpt2,
    appendEod: true,
    workers,
    overwrite: true,
  };
  const seconds = await fastest(2, () => prepareDataset(options));
  report(`prepareDataset, GPT-2, workers: ${workers}`, (copies * megabytes) / seconds, 'MB/s');
}

const parquet = join(directory, 'corpus.parquet');
const documents = Array.from({ length: copies }, () => text.match(/.{1,2000}/gs)).flat();
writeFileSync(
  parquet,
  new Uint8Array(parquetWriteBuffer({ columnData: [{ name: 'text', data: documents }] })),
);
let numRead = 0;
for await (const read of readDocuments({ path: parquet })) assert.equal(read, documents[numRead++]);
assert.equal(numRead, documents.length);
const reading = await fastest(3, async () => {
  for await (const _ of readDocuments({ path: parquet }));
});
report('readDocuments, Parquet, Snappy', (copies * megabytes) / reading, 'MB/s');

const prefix = join(directory, 'large');
const writer = new IndexedDatasetWriter({ prefix, dtype: 'uint16' });
const document = Uint16Array.from({ length: 200 }, (_, i) => i);
for (let i = 0; i < 500_000; i++) {
  writer.addSequence(document);
  writer.endDocument();
}
writer.finish();
const options = { prefix, split: 'train', sequenceLength: 1024, seed: 1234, cacheDirectory: false };
report(
  'indices of 100 M tokens, 3 epochs',
  1000 * (await fastest(3, () => openGptDataset({ ...options, numSamples: 290_000 }).close())),
  'ms',
);
report('resident memory after it', process.memoryUsage().rss / 1e6, 'MB');

const dataset = openGptDataset(options);
for (const thread of ['main', 'worker']) {
  const loader = createBatchLoader({ dataset, sampler: { kind: 'cyclic', microBatchSize: 8 }, thread });
  await loader.next();
  const steps = 200;
  for (let step = 0; step < steps; step++) {
    const until = performance.now() + 5;
    while (performance.now() < until);
    await loader.next();
  }
  const { waitedMilliseconds } = loader.statistics;
  report(
    `waiting for 8 x 1024 tokens, steps of 5 ms, ${thread} thread`,
    (1000 * waitedMilliseconds) / steps,
    'us a step',
  );
  await loader.close();
}
dataset.close();
rmSync(directory, { recursive: true });
