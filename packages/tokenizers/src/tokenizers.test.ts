import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createTokenizer, type TokenizerOptions, trainByteLevelBpe } from './index.js';

const fixture = JSON.parse(
  readFileSync(new URL('../fixtures/tokenizer-training.json', import.meta.url), 'utf8'),
) as { unicodeLines: string[]; wordPiece: { vocabulary: string[]; ids: number[][]; casedIds: number[][] } };

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

describe('GPT2BPETokenizer', async () => {
  const tokenizer = await createTokenizer({ type: 'GPT2BPETokenizer' });

  it('has the real vocabulary', () => {
    expect(tokenizer).toMatchObject({ name: 'GPT2BPETokenizer', vocabularySize: 50257, eod: 50256 });
    // The expected ids were published with GPT-2.
    expect([...tokenizer.encode('Hello, world!')]).toEqual([15496, 11, 995, 0]);
    expect(tokenizer.decode([50256])).toBe('<|endoftext|>');
  });

  it.each(fixture.unicodeLines)('gives back %j', (line) => {
    expect(tokenizer.decode(tokenizer.encode(line))).toBe(line);
  });

  it('refuses ids of another vocabulary', async () => {
    const bytes = await createTokenizer({ type: 'ByteLevelTokenizer' });
    for (const [tokenizer, ids] of [
      [await createTokenizer({ type: 'GPT2BPETokenizer' }), [50_257]],
      [bytes, [97, 257]],
      [bytes, [-1]],
      [bytes, [0.5]],
    ] as const)
      expect(() => tokenizer.decode(ids)).toThrow(/does not exist/);
    expect(bytes.decode([97, 256])).toBe('a');
  });

  it('reads text that looks like the end of a document as text', () => {
    expect([...tokenizer.encode('<|endoftext|>')]).not.toContain(50256);
  });

  it('takes both vocab.json and merges.txt', async () => {
    const { model } = await trainByteLevelBpe({
      texts: ['low lower lowest'],
      vocabularySize: 270,
      minFrequency: 1,
    });
    const vocabFile = join(directory, 'vocab.json');
    const mergeFile = join(directory, 'merges.txt');
    writeFileSync(vocabFile, JSON.stringify(model.vocab));
    writeFileSync(
      mergeFile,
      ['#version: 0.2', ...model.merges!.map((pair) => [pair].flat().join(' ')), ''].join('\n'),
    );
    const fromFiles = await createTokenizer({ type: 'GPT2BPETokenizer', vocabFile, mergeFile });
    expect(fromFiles.eod).toBe(0);
    expect(fromFiles.encode(' lower')).toHaveLength(1);
    await expect(createTokenizer({ type: 'GPT2BPETokenizer', vocabFile })).rejects.toMatchObject({
      code: 'MTL_DATA_TOKENIZER_FILES',
    });
  });
});

describe('BertWordPiece', () => {
  const load = (type: 'BertWordPieceLowerCase' | 'BertWordPieceCase') => {
    const vocabFile = join(directory, 'vocab.txt');
    // a cased vocabulary has the line ends of Windows
    const end = type === 'BertWordPieceCase' ? '\r\n' : '\n';
    writeFileSync(vocabFile, [...fixture.wordPiece.vocabulary, ''].join(end));
    return createTokenizer({ type, vocabFile });
  };

  it.each(fixture.unicodeLines.map((line, i) => [i, line] as const))(
    'encodes Unicode line %i as Python does, lower-cased or not',
    async (i, line) => {
      const lowerCase = await load('BertWordPieceLowerCase');
      expect([...lowerCase.encode(line)]).toEqual(fixture.wordPiece.ids[i]);
      expect([...(await load('BertWordPieceCase')).encode(line)]).toEqual(fixture.wordPiece.casedIds[i]);
    },
  );

  it('lists its tokens', async () => {
    const { tokenIds, vocabularySize } = await load('BertWordPieceLowerCase');
    expect(tokenIds!.size).toBe(vocabularySize);
    for (const [id, token] of fixture.wordPiece.vocabulary.entries()) expect(tokenIds!.get(token)).toBe(id);
  });
});

describe('ByteLevelTokenizer', async () => {
  const tokenizer = await createTokenizer({ type: 'ByteLevelTokenizer' });
  it('is UTF-8 and an end of document', () => {
    expect(tokenizer).toMatchObject({ vocabularySize: 257, eod: 256 });
    expect([...tokenizer.encode('é')]).toEqual([0xc3, 0xa9]);
    expect(tokenizer.decode([0xc3, 0xa9, 256])).toBe('é');
  });
  it('gives every text back', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
      }),
    );
  });
});

describe('NullTokenizer', () => {
  it('passes ids through, with the exact size', async () => {
    const tokenizer = await createTokenizer({ type: 'NullTokenizer', vocabSize: 100 });
    expect(tokenizer).toMatchObject({ vocabularySize: 100, eod: 99 });
    expect(tokenizer.encode(' 3 0\n99 ')).toEqual([3, 0, 99]);
    expect(tokenizer.decode([3, 0, 99])).toBe('3 0 99');
    for (const text of ['100', '-1', '1.5', 'x']) {
      expect(() => tokenizer.encode(text)).toThrow(
        expect.objectContaining({ code: 'MTL_DATA_TOKEN_OUT_OF_VOCABULARY' }),
      );
    }
    await expect(createTokenizer({ type: 'NullTokenizer', vocabSize: 0 })).rejects.toMatchObject({
      code: 'MTL_DATA_TOKENIZER_SIZE',
    });
  });
});

describe('HuggingFaceTokenizer', () => {
  async function trained() {
    return trainByteLevelBpe({
      texts: ['low lower lowest'],
      vocabularySize: 270,
      minFrequency: 1,
      specialTokens: ['<s>', '<e>'],
    });
  }
  const open = (tokenizerModel: string, eodToken?: string) =>
    createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel, eodToken });

  it('reads a directory and its tokenizer_config.json', async () => {
    mkdirSync(join(directory, 'model'));
    writeFileSync(join(directory, 'model/tokenizer.json'), JSON.stringify(await trained()));
    writeFileSync(
      join(directory, 'model/tokenizer_config.json'),
      JSON.stringify({ eos_token: { content: '<e>' }, pad_token: '<s>' }),
    );
    const tokenizer = await open(join(directory, 'model'));
    expect(tokenizer).toMatchObject({ eod: 1, padId: 0, name: 'HuggingFaceTokenizer' });
    expect(tokenizer.vocabularySize).toBe(2 + 256 + (await trained()).model.merges!.length);
  });

  it('asks which token ends a document when the file does not say', async () => {
    const path = join(directory, 'tokenizer.json');
    writeFileSync(path, JSON.stringify(await trained()));
    await expect(open(path)).rejects.toMatchObject({
      code: 'MTL_DATA_TOKENIZER',
      remedy: expect.stringContaining('eodToken'),
    });
    expect((await open(path, '<e>')).eod).toBe(1);
    await expect(open(path, '<x>')).rejects.toMatchObject({ message: expect.stringContaining('"<x>"') });
  });

  it.each([
    ['', /not JSON/],
    ['{"a": 1', /not JSON/],
    ['[]', /not a tokenizer/],
    ['{}', /no model/],
    ['{"model":{"type":"Magic"}}', /type "Magic"/],
    ['{"model":{"type":"BPE","vocab":{},"merges":[]}}', /empty vocabulary/],
    ['{"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}}', /the id -1/],
    ['{"model":{"type":"BPE","vocab":{"a":1e15},"merges":[]}}', /the id 1000000000000000/],
    ['{"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}}', /the id 0 of another token/],
    ['{"model":{"type":"BPE","vocab":{"a":0}}}', /no model|no merges|unknown token/],
    ['{"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]}}', /needs the token "ab"/],
    ['{"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b c"]}}', /malformed merge/],
    ['{"model":{"type":"WordPiece","vocab":{"a":0},"unk_token":"x"}}', /unknown token "x"/],
    [
      '{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"added_tokens":[{"id":-5,"content":"x"}]}',
      /malformed added token/,
    ],
    ['{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":7}', /pre_tokenizer is 7/],
    [
      '{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"Nonsense"}}',
      /decoder.type is "Nonsense"/,
    ],
  ])('refuses %s', async (text, message) => {
    const path = join(directory, 'tokenizer.json');
    writeFileSync(path, text);
    await expect(open(path)).rejects.toMatchObject({
      code: 'MTL_DATA_TOKENIZER',
      message: expect.stringMatching(message),
    });
  });

  it('names a missing file', async () => {
    await expect(open(join(directory, 'absent.json'))).rejects.toMatchObject({
      code: 'MTL_DATA_TOKENIZER',
      message: expect.stringContaining('absent.json: no such file'),
    });
  });
});

describe('createTokenizer', () => {
  it('proposes the nearest type', async () => {
    const options = { type: 'GPT2BPETokeniser' } as unknown as TokenizerOptions;
    await expect(createTokenizer(options)).rejects.toMatchObject({
      code: 'MTL_DATA_TOKENIZER_TYPE',
      message: 'unknown type GPT2BPETokeniser of tokenizer',
      expected: expect.stringContaining('HuggingFaceTokenizer, '),
      remedy: 'use GPT2BPETokenizer',
    });
  });
});
