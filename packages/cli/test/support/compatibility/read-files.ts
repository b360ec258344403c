import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { LogicalTensor } from '@mtl/checkpoint';
import {
  configurationJson,
  type PretrainingConfiguration,
  parseFlags,
  validateConfiguration,
} from '@mtl/configuration';
import { IndexedDataset } from '@mtl/data';
import type { TokenBatch } from '@mtl/layout';
import { type MetricsRecord, type RunRecord, readRun } from '@mtl/run-records';
import { openTraining } from '@mtl/runs';
import { openTrainingData } from '@mtl/runs/internal';
import { optimizerTensors, weightTensors } from '@mtl/trainer';

/** Files of a folder that a version wrote (see docs/compatibility.md). */
export const fixtureFiles = {
  corpus: 'corpus_text_document',
  indexCache: 'cache',
  tokenizer: 'tokenizer.json',
  configuration: 'configuration.yaml',
  /** The directory of --save: checkpoint, tokenizer, run.json and metrics.jsonl. */
  run: 'run',
  expected: 'expected.json',
};

/** The results of readers for the files of a folder. */
export interface ReadFiles {
  readonly dataset: {
    readonly dtype: string;
    readonly sequenceLengths: readonly number[];
    readonly documentIndices: readonly number[];
    readonly tokens: string;
  };
  /** Tokens of all training samples in order, with the cached indices, and with indices built anew. */
  readonly samples: { readonly cached: string; readonly built: string };
  /** Messages on indices that were built although they are in the cache. */
  readonly indexMessages: readonly string[];
  readonly configuration: Readonly<Record<string, unknown>>;
  readonly record: RunRecord;
  readonly lastStep: MetricsRecord;
  readonly lastValidation: MetricsRecord;
  /** Shape and SHA-256 of every weight and every moment of Adam, by name. */
  readonly tensors: Readonly<Record<string, string>>;
  readonly progress: Readonly<Record<string, unknown>>;
  /** The lines of metrics.jsonl about the steps and evaluations after the checkpoint. */
  readonly resumed: readonly ResumedRecord[];
  /** Keys that the resumed run wrote; dots join the keys of nested objects. */
  readonly keys: Readonly<Record<'step' | 'validation' | 'start', readonly string[]>>;
}

/** Values of a record that do not depend on the speed of the machine. */
export interface ResumedRecord {
  readonly type?: string | undefined;
  readonly iteration: number;
  readonly consumed_samples?: unknown;
  readonly learning_rate?: unknown;
  readonly lm_loss: number;
}

/**
 * Reads the files in the working directory with the present code, and resumes training from the checkpoint on
 * one process. Writes a second run folder there.
 */
export async function readFiles(): Promise<ReadFiles> {
  const { configuration: configurationFile, run, indexCache } = fixtureFiles;
  const { record, step, validation } = await readRun(run);
  const indexMessages: string[] = [];
  const ofCache = parseConfiguration(['--config', configurationFile]);
  const withoutCache = parseConfiguration(['--config', configurationFile, '--data-cache-path', 'new-cache']);
  const samples = {
    cached: await readSamples(ofCache, (text) => indexMessages.push(text)),
    built: await readSamples(withoutCache, () => {}),
  };
  if (ofCache.data.dataCachePath !== indexCache) throw new Error(`${configurationFile} names another cache`);
  return {
    dataset: readDataset(),
    samples,
    indexMessages,
    configuration: savedFlags(ofCache),
    record: record!,
    lastStep: step!,
    lastValidation: validation!,
    ...(await resume(['--config', configurationFile, '--load', run, '--save', 'resumed'])),
  };
}

function parseConfiguration(flags: readonly string[]): PretrainingConfiguration {
  return validateConfiguration(parseFlags([...flags]));
}

function readDataset(): ReadFiles['dataset'] {
  const dataset = IndexedDataset.open(fixtureFiles.corpus);
  const tokens = createHash('sha256');
  for (let sequence = 0; sequence < dataset.numSequences; sequence++)
    tokens.update(dataset.sequence(sequence) as Uint16Array);
  return {
    dtype: dataset.dtype,
    sequenceLengths: [...dataset.sequenceLengths],
    documentIndices: [...dataset.documentIndices],
    tokens: tokens.digest('hex'),
  };
}

/** Returns the settings that a checkpoint keeps and `--config` reads again. */
function savedFlags(configuration: PretrainingConfiguration): Record<string, unknown> {
  const { resolved: _forReaders, ...read } = configurationJson(configuration);
  return asJson(read);
}

async function readSamples(
  configuration: PretrainingConfiguration,
  onMessage: (text: string) => void,
): Promise<string> {
  const { datasets } = await openTrainingData(configuration, { corpusDirectory: 'unused', onMessage });
  const train = datasets.train!;
  const hash = createHash('sha256');
  for (let sample = 0; sample < train.length; sample++) {
    const { tokens, labels } = train.sample(sample) as TokenBatch;
    hash.update(tokens).update(labels);
  }
  for (const dataset of [train, datasets.valid, datasets.test]) dataset?.close();
  return hash.digest('hex');
}

async function resume(
  flags: readonly string[],
): Promise<Pick<ReadFiles, 'tensors' | 'progress' | 'resumed' | 'keys'>> {
  const training = await openTraining({
    configuration: parseConfiguration(flags),
    corpusDirectory: 'unused',
    stream: { write: () => true },
  });
  try {
    const { optimizer, trainer } = training;
    const tensors = await computeDigests([...weightTensors(optimizer), ...optimizerTensors(optimizer)]);
    const progress = asJson(trainer.progress);
    await training.run();
    const lines = readFileSync('resumed/metrics.jsonl', 'utf8').trim().split('\n');
    const records = lines.map((line) => JSON.parse(line) as MetricsRecord);
    const { record } = await readRun('resumed');
    return {
      tensors,
      progress,
      resumed: records.map(resumedRecord),
      keys: {
        step: listKeys(records.find(({ type }) => type === undefined)),
        validation: listKeys(records.find(({ type }) => type === 'validation')),
        start: listKeys(record!.starts[0]),
      },
    };
  } finally {
    await training.close();
  }
}

function resumedRecord(record: MetricsRecord): ResumedRecord {
  const { type, iteration, consumed_samples, learning_rate, lm_loss } = record;
  return {
    ...(type === undefined ? {} : { type }),
    iteration,
    consumed_samples,
    learning_rate,
    lm_loss: lm_loss!,
  };
}

function listKeys(value: unknown, prefix = ''): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => [
    `${prefix}${key}`,
    ...listKeys(inner, `${prefix}${key}.`),
  ]);
}

async function computeDigests(tensors: readonly LogicalTensor[]): Promise<Record<string, string>> {
  const digests: Record<string, string> = {};
  for (const tensor of tensors) {
    const digest = createHash('sha256')
      .update(await tensor.read())
      .digest('hex');
    digests[tensor.name] = `${tensor.dtype}[${tensor.globalShape.join(', ')}] ${digest}`;
  }
  return digests;
}

const asJson = (value: unknown) => JSON.parse(JSON.stringify(value)) as Record<string, unknown>;
