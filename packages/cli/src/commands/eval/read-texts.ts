import { statSync } from 'node:fs';
import {
  type BadLines,
  IndexedDataset,
  parseDataPath,
  readDocuments,
  type SplitName,
  splitSequences,
} from '@mtl/data';
import { checkNoWeightAmongPrefixes } from '@mtl/data/internal';
import { ConfigurationError, DataError } from '@mtl/errors';
import type { Tokenizer } from '@mtl/tokenizers';
import { encodeText } from './encode-text.js';

/** A text on which a model is evaluated. */
export interface EvaluationText {
  /** The prefix of the dataset, or the path of the file. */
  readonly name: string;
  readonly tokens: Int32Array;
  /** Positions of tokens that begin a document, such as BOS. The model does not predict them. */
  readonly given?: ReadonlySet<number>;
  /** The size of the text in UTF-8 bytes, if the text is known. */
  readonly bytes?: number;
}

/** The documents of a dataset to read: a part of a split, or all documents. */
export interface DatasetSelection {
  readonly split: string;
  readonly part: SplitName | 'all';
}

/** Reads the tokens of datasets, document by document, with at most `maxTokens` of each dataset. */
export function readDatasets(
  dataPath: readonly string[],
  { split, part, maxTokens }: DatasetSelection & { readonly maxTokens: number },
): EvaluationText[] {
  const blend = parseDataPath(dataPath);
  checkNoWeightAmongPrefixes(blend);
  return blend.prefixes.map((prefix) => {
    using dataset = IndexedDataset.open(prefix);
    const { first, end } = selectSequences(dataset, { split, part });
    let numTokens = 0;
    for (let index = first; index < end; index++) numTokens += dataset.sequenceLengths[index]!;
    const tokens = new Int32Array(Math.min(numTokens, maxTokens));
    let filled = 0;
    for (let index = first; index < end && filled < tokens.length; index++) {
      const sequence = dataset.sequence(index);
      for (let at = 0; at < sequence.length && filled < tokens.length; at++)
        tokens[filled++] = Number(sequence[at]);
    }
    return { name: dataset.prefix, tokens };
  });
}

function selectSequences(
  dataset: IndexedDataset,
  { split, part }: DatasetSelection,
): { first: number; end: number } {
  if (part === 'all') return { first: 0, end: dataset.numSequences };
  const { first, end } = splitSequences({ split: part, splitWeights: split, count: dataset.numSequences });
  if (first < end) return { first, end };
  throw new ConfigurationError(
    'MTL_SPLIT',
    `${dataset.prefix}: --split ${split} leaves its ${part} part empty`,
    {
      expected: 'a part with at least one document',
      remedy: 'pass --part all, or another --split',
    },
  );
}

interface ReadTextFilesOptions {
  readonly tokenizer: Tokenizer;
  readonly maxTokens: number;
  /** The key of the text in JSON lines, or the text column in Parquet files. */
  readonly jsonKey: string | undefined;
  /** Counts lines and rows that are left out. */
  readonly bad: BadLines;
}

/**
 * Reads the tokens of text files, with an end-of-document token between documents, and at most `maxTokens` of
 * each file.
 */
export async function readTextFiles(
  paths: readonly string[],
  { tokenizer, maxTokens, jsonKey, bad }: ReadTextFilesOptions,
): Promise<EvaluationText[]> {
  const texts: EvaluationText[] = [];
  for (const path of paths) {
    if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) {
      throw new DataError('MTL_DATA_CORPUS', `${path}: no such file`, { remedy: 'check the path' });
    }
    const tokens: number[] = [];
    const given = new Set<number>();
    let bytes = 0;
    let numDocuments = 0;
    const { onBadLine } = bad;
    for await (const document of readDocuments({ path, jsonKey, textDocuments: 'file', onBadLine })) {
      numDocuments++;
      if (tokens.length > 0) tokens.push(tokenizer.eod);
      for (const offset of tokenizer.startIds?.keys() ?? []) given.add(tokens.length + offset);
      for (const token of encodeText(tokenizer, document)) tokens.push(token);
      bytes += Buffer.byteLength(document);
      if (tokens.length >= maxTokens) break;
    }
    bad.checkSomeUsable(numDocuments);
    const isWhole = tokens.length <= maxTokens;
    texts.push({
      name: path,
      tokens: Int32Array.from(isWhole ? tokens : tokens.slice(0, maxTokens)),
      given,
      ...(isWhole ? { bytes } : {}),
    });
  }
  return texts;
}
