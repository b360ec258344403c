import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import type { TokenizerJson } from '../check-tokenizer-json.js';
import {
  createTokenizer,
  type Tokenizer,
  trainByteLevelBpe,
  trainWordPiece,
  writeTokenizerJson,
  writeVocabularyText,
} from '../index.js';

interface Fixture {
  texts: string[];
  unicodeLines: string[];
  bpe: { size: number; minFrequency: number; merges: string[]; ids: number[][] };
  wordPiece: { size: number; minFrequency: number; vocabulary: string[] };
}
const fixture = JSON.parse(
  readFileSync(new URL('../../fixtures/tokenizer-training.json', import.meta.url), 'utf8'),
) as Fixture;

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function load(name: string, json: TokenizerJson): Promise<Tokenizer> {
  const path = join(directory, `${name}.json`);
  writeTokenizerJson(path, json);
  return createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel: path });
}

describe('trainByteLevelBpe', async () => {
  const json = await trainByteLevelBpe({
    texts: fixture.texts,
    vocabularySize: fixture.bpe.size,
    minFrequency: fixture.bpe.minFrequency,
  });
  const tokenizer = await load('bpe', json);

  it('finds the merges that the Python trainer finds', () => {
    const merges = json.model.merges!.map((pair) => (typeof pair === 'string' ? pair : pair.join(' ')));
    expect(merges).toEqual(fixture.bpe.merges);
    expect(tokenizer.vocabularySize).toBe(fixture.bpe.size);
    expect(tokenizer.eod).toBe(0);
  });

  it.each(fixture.unicodeLines.map((line, i) => [i, line] as const))(
    'encodes Unicode line %i as Python does',
    (i, line) => {
      expect([...tokenizer.encode(line)]).toEqual(fixture.bpe.ids[i]);
      expect(tokenizer.decode(tokenizer.encode(line))).toBe(line);
    },
  );

  it('gives every text back', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
      }),
    );
  });

  it('learns nothing from pairs that are too rare', async () => {
    const rare = await trainByteLevelBpe({ texts: ['ab cd'], vocabularySize: 300, minFrequency: 2 });
    expect(rare.model.merges).toEqual([]);
    const all = await trainByteLevelBpe({ texts: ['ab cd'], vocabularySize: 300, minFrequency: 1 });
    expect(all.model.merges!.length).toBe(3);
  });

  it('refuses sizes and texts that cannot work', async () => {
    await expect(trainByteLevelBpe({ texts: ['a'], vocabularySize: 256 })).rejects.toMatchObject({
      code: 'MTL_DATA_VOCABULARY_SIZE',
    });
    await expect(trainByteLevelBpe({ texts: [], vocabularySize: 300 })).rejects.toMatchObject({
      code: 'MTL_DATA_EMPTY_CORPUS',
    });
  });
});

describe('trainWordPiece', async () => {
  const options = {
    texts: fixture.texts,
    vocabularySize: fixture.wordPiece.size,
    minFrequency: fixture.wordPiece.minFrequency,
    limitAlphabet: 100_000,
  };
  const json = await trainWordPiece(options);
  const tokenizer = await load('word-piece', json);

  it('finds the pieces that the Python trainer finds', () => {
    expect(Object.keys(json.model.vocab).sort()).toEqual([...fixture.wordPiece.vocabulary].sort());
  });

  it('is deterministic', async () => {
    expect(await trainWordPiece(options)).toEqual(json);
  });

  it('encodes words from pieces, special tokens apart', () => {
    expect(tokenizer.decode(tokenizer.encode('The License shall apply'))).toBe('the license shall apply');
    expect([tokenizer.padId, tokenizer.eod]).toEqual([0, 3]);
  });

  it('gives a vocab.txt with the same ids', async () => {
    const vocabFile = join(directory, 'vocab.txt');
    writeVocabularyText(vocabFile, json);
    const fromText = await createTokenizer({ type: 'BertWordPieceLowerCase', vocabFile });
    expect(fromText.tokenIds).toEqual(tokenizer.tokenIds);
    for (const text of fixture.texts) expect(fromText.encode(text)).toEqual(tokenizer.encode(text));
    const bpe = await trainByteLevelBpe({ texts: ['a'], vocabularySize: 300 });
    expect(() => writeVocabularyText(vocabFile, bpe)).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_TOKENIZER' }),
    );
  });

  it('numbers additional special tokens right after its own', async () => {
    const additionalSpecialTokens = ['[BOS]', '[EOS]', '<extra_id_0>'];
    const { model, added_tokens: added } = await trainWordPiece({ ...options, additionalSpecialTokens });
    expect(model.vocab).toMatchObject({ '[MASK]': 4, '[BOS]': 5, '[EOS]': 6, '<extra_id_0>': 7 });
    expect(added.map(({ id }) => id)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('keeps only the most frequent characters when asked to', async () => {
    const small = await trainWordPiece({ ...options, limitAlphabet: 20, vocabularySize: 200 });
    const characters = Object.keys(small.model.vocab).filter((piece) => Array.from(piece).length === 1);
    expect(characters).toHaveLength(20);
  });
});
