import { sharedCopy, TaskDataset, TaskSequences } from '@mtl/data';
import { ConfigurationError, DataError } from '@mtl/errors';
import type { EncodedText, Tokenizer } from '@mtl/tokenizers';
import { pairSpecialTokens, pairTokens, pairVocabulary } from './encode-pairs.js';
import type { SpanAnswer, SpanExample } from './read-squad-file.js';

/** Questions about contexts, and settings for splitting the contexts into windows. */
interface EncodeSpansOptions {
  readonly examples: readonly SpanExample[];
  /** A BERT WordPiece tokenizer that returns offsets. */
  readonly tokenizer: Tokenizer;
  readonly sequenceLength: number;
  /** The number of tokens between the starts of consecutive windows. Default: 128. */
  readonly documentStride?: number;
  /** The maximum number of tokens in a question. Tokens beyond it are dropped. Default: 64. */
  readonly maximumQueryLength?: number;
}

/** The section of a context that a sample contains. Each array has an entry for each token of the window. */
export interface SpanWindow {
  /** Index of the example. */
  readonly example: number;
  /** The position of the window's first token in the sequence [S]. */
  readonly offset: number;
  /** float64: the start of each token, as an index of a UTF-16 unit in the context. */
  readonly starts: Float64Array;
  /** float64: the end of each token: the index in the context of the first UTF-16 unit after the token. */
  readonly ends: Float64Array;
  /**
   * uint8: for each token, 1 if no other window of the example has more context around the token, else 0
   * (Devlin 2018).
   */
  readonly hasMaximumContext: Uint8Array;
}

/** Samples for span prediction, with their windows. */
interface EncodedSpans {
  readonly dataset: TaskDataset;
  /** The window of each sample: entry n describes sample n. */
  readonly windows: readonly SpanWindow[];
}

/**
 * Encodes questions about contexts (paragraphs that contain the answers). A sample is a window:
 * `[CLS] question [SEP] part of the context [SEP]`. Samples are sorted by example, and have the start and end
 * positions of the first answer. Both positions are 0 (`[CLS]`) if the window does not contain the complete
 * answer, or if there is no answer. If an answer starts or ends inside a token, it includes the whole token.
 * Throws `MTL_DATA_TOKENIZER_OFFSETS`, `MTL_DATA_SPECIAL_TOKEN`, `MTL_DATA_SEQUENCE_LENGTH`,
 * `MTL_DATA_STRIDE`.
 */
export function encodeSpans(options: EncodeSpansOptions): EncodedSpans {
  const { examples, tokenizer, sequenceLength } = options;
  const { documentStride = 128, maximumQueryLength = 64 } = options;
  const encodeWithOffsets = requireOffsets(tokenizer);
  const vocabulary = pairVocabulary(tokenizer);
  checkLengths({ sequenceLength, documentStride, maximumQueryLength });
  const sequences = new TaskSequences();
  const windows: SpanWindow[] = [];
  const startPositions: number[] = [];
  const endPositions: number[] = [];
  // The tokens of the last context are reused, because questions about the same context are consecutive.
  let context: { readonly text: string; readonly encoded: EncodedText } | undefined;
  for (const [exampleNumber, example] of examples.entries()) {
    if (context?.text !== example.context) {
      context = { text: example.context, encoded: encodeWithOffsets(example.context) };
    }
    const { encoded } = context;
    const query = tokenizer.encode(example.question).slice(0, maximumQueryLength);
    const offset = query.length + 2;
    const room = sequenceLength - query.length - pairSpecialTokens;
    const parts = splitIntoWindows({ length: encoded.ids.length, room, documentStride });
    const best = maximumContext(parts, encoded.ids.length);
    const answer = answerTokens(encoded, example.answers[0]);
    for (const [partNumber, { from, to }] of parts.entries()) {
      const second = encoded.ids.slice(from, to);
      sequences.add(pairTokens({ first: query, second, sequenceLength, vocabulary }));
      const isInside = answer !== undefined && answer.first >= from && answer.last < to;
      startPositions.push(isInside ? offset + answer.first - from : 0);
      endPositions.push(isInside ? offset + answer.last - from : 0);
      windows.push({
        example: exampleNumber,
        offset,
        starts: Float64Array.from(encoded.starts.slice(from, to)),
        ends: Float64Array.from(encoded.ends.slice(from, to)),
        hasMaximumContext: Uint8Array.from({ length: to - from }, (_, i) =>
          best[from + i] === partNumber ? 1 : 0,
        ),
      });
    }
  }
  const dataset = new TaskDataset({
    kind: 'task',
    sequenceLength,
    numChoices: 1,
    padding: vocabulary.padding,
    ...sequences.pack(),
    labels: undefined,
    startPositions: sharedCopy(startPositions),
    endPositions: sharedCopy(endPositions),
  });
  return { dataset, windows };
}

function requireOffsets(tokenizer: Tokenizer): (text: string) => EncodedText {
  if (tokenizer.encodeWithOffsets !== undefined) return tokenizer.encodeWithOffsets;
  throw new DataError(
    'MTL_DATA_TOKENIZER_OFFSETS',
    `${tokenizer.name} does not report the positions of its tokens`,
    {
      expected:
        "BERT's WordPiece: BertWordPieceLowerCase, BertWordPieceCase, or a tokenizer.json of that kind",
    },
  );
}

function checkLengths(options: {
  sequenceLength: number;
  documentStride: number;
  maximumQueryLength: number;
}): void {
  const { sequenceLength, documentStride, maximumQueryLength } = options;
  if (!Number.isInteger(maximumQueryLength) || maximumQueryLength < 1) {
    throw new ConfigurationError('MTL_DATA_SEQUENCE_LENGTH', `questions of ${maximumQueryLength} tokens`, {
      expected: 'a positive integer',
    });
  }
  const room = sequenceLength - maximumQueryLength - pairSpecialTokens;
  if (!Number.isInteger(sequenceLength) || room < 1) {
    throw new ConfigurationError(
      'MTL_DATA_SEQUENCE_LENGTH',
      `${sequenceLength} tokens leave no room for a context after a question of ${maximumQueryLength}`,
      { expected: `${maximumQueryLength + pairSpecialTokens + 1} or more, or a shorter question` },
    );
  }
  // With a longer stride, some tokens would be in no window.
  if (!Number.isInteger(documentStride) || documentStride < 1 || documentStride > room) {
    throw new ConfigurationError('MTL_DATA_STRIDE', `the document stride ${documentStride} is not usable`, {
      expected: `1 to ${room}: what a window of ${sequenceLength} tokens shows of the context at least`,
    });
  }
}

interface TokenRange {
  readonly from: number;
  readonly to: number;
}

/**
 * Returns windows of at most `room` tokens, whose starts are `documentStride` apart, up to the first window
 * that reaches the end. An empty context has one window.
 */
function splitIntoWindows(options: { length: number; room: number; documentStride: number }): TokenRange[] {
  const { length, room, documentStride } = options;
  const parts: TokenRange[] = [];
  for (let from = 0; ; from += documentStride) {
    const to = Math.min(length, from + room);
    parts.push({ from, to });
    if (to === length) return parts;
  }
}

/**
 * Returns, for each token, the index of the window with the most context around it. A window's score is the
 * number of tokens on the side of the token that has fewer tokens, plus 0.01 for each token of the window.
 * Ties go to the first window.
 */
function maximumContext(parts: readonly TokenRange[], length: number): Int32Array {
  const best = new Int32Array(length);
  const scores = new Float64Array(length).fill(-1);
  for (const [number, { from, to }] of parts.entries()) {
    for (let token = from; token < to; token++) {
      const score = Math.min(token - from, to - 1 - token) + 0.01 * (to - from);
      if (score > scores[token]!) {
        scores[token] = score;
        best[token] = number;
      }
    }
  }
  return best;
}

/**
 * Returns the range of tokens that an answer touches; undefined if there is no answer, or no token contains
 * its characters.
 */
function answerTokens(encoded: EncodedText, answer: SpanAnswer | undefined) {
  if (answer === undefined) return undefined;
  const end = answer.start + answer.text.length;
  const first = encoded.ends.findIndex((tokenEnd) => tokenEnd > answer.start);
  const last = encoded.starts.findLastIndex((tokenStart) => tokenStart < end);
  return first < 0 || last < first ? undefined : { first, last };
}
