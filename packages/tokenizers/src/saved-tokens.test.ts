import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createTokenizer } from './create-tokenizer.js';
import { classesByModelType, typesWithWrongClass } from './model-type-classes.js';

interface Case {
  readonly name: string;
  readonly base: string;
  /** Fields of tokenizer.json that replace fields of the base. */
  readonly parts: object;
  /** The contents of the files next to tokenizer.json, by file name. */
  readonly files: Readonly<Record<string, object>>;
  readonly length?: number;
  readonly special?: Readonly<Record<string, string>>;
  readonly encoded?: readonly (readonly [string, number[]])[];
  /**
   * The contradiction between files: AutoTokenizer gives a token a different id than a file does, or two
   * files have different tokens for the same name.
   */
  readonly contradiction?: string;
}

// tooling/fixtures/make-saved-tokens-fixtures.py makes the fixtures.
const { bases, cases, classes, wrong } = JSON.parse(
  readFileSync(new URL('../fixtures/saved-tokens.json', import.meta.url), 'utf8'),
) as {
  bases: Readonly<Record<string, object>>;
  cases: readonly Case[];
  classes: Readonly<Record<string, string>>;
  wrong: readonly string[];
};

const root = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let folders = 0;
function open(files: Readonly<Record<string, object>>) {
  const folder = join(root, String(++folders));
  mkdirSync(folder);
  for (const [name, value] of Object.entries(files)) writeFileSync(join(folder, name), JSON.stringify(value));
  return createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel: folder, eodToken: 'e' });
}
const openCase = ({ base, parts, files }: Case) =>
  open({ 'tokenizer.json': { ...bases[base], ...parts }, ...files });

describe('tokens kept next to a tokenizer.json', () => {
  it('have the ids that AutoTokenizer gives them', async () => {
    const ignored: string[] = [];
    for (const one of cases) {
      if (one.encoded === undefined) continue;
      const tokenizer = await openCase(one).catch((error: Error) => {
        if (!error.message.includes('which transformers 5 ignores')) throw error;
        ignored.push(one.name);
      });
      if (tokenizer === undefined) continue;
      const { name, length, special, encoded } = one;
      expect({
        name,
        length: tokenizer.vocabularySize,
        special: tokenizer.specialTokens,
        encoded: encoded.map(([text]) => [text, tokenizer.encode(text)]),
      }).toEqual({ name, length, special, encoded });
    }
    // only one case is ignored: the components of its tokenizer.json differ from the components that the
    // class builds
    expect(ignored).toEqual(['random 35']);
  });

  const contradictions = cases.filter(({ contradiction }) => contradiction !== undefined);
  it.each(contradictions)('are refused in the case of $name: $contradiction', async (one) => {
    await expect(openCase(one)).rejects.toMatchObject({ code: 'MTL_DATA_TOKENIZER' });
  });
});

describe('files next to a tokenizer.json', () => {
  const bytes = { ...bases.bytes, added_tokens: [] };
  const rejected = (files: Readonly<Record<string, object>>) =>
    open({ 'tokenizer.json': bytes, ...files }).then(
      () => 'taken',
      ({ code, message }: { code: string; message: string }) => `${code} ${message}`,
    );

  it.each([
    [
      'two ids of a token',
      {
        'added_tokens.json': { '<a>': 290 },
        'tokenizer_config.json': { added_tokens_decoder: { 291: { content: '<a>' } } },
      },
      'added_tokens.json: gives the token "<a>" the id 290, and ',
    ],
    [
      'two tokens of an id',
      {
        'added_tokens.json': { '<a>': 290 },
        'tokenizer_config.json': { added_tokens_decoder: { 290: { content: '<b>' } } },
      },
      'added_tokens.json: gives the id 290 to "<a>", and ',
    ],
    [
      'two ends of a text',
      { 'special_tokens_map.json': { eos_token: 'a' }, 'tokenizer_config.json': { eos_token: 'b' } },
      'special_tokens_map.json: has the eos_token "a", and ',
    ],
    [
      'a gap',
      { 'added_tokens.json': { '<a>': 292 } },
      'gives the added token "<a>" the id 292, but the tokenizers library 290',
    ],
    ['an id that is none', { 'added_tokens.json': { '<a>': '292' } }, 'gives the token "<a>" the id "292"'],
    ['a token that is none', { 'tokenizer_config.json': { pad_token: 5 } }, 'has a malformed pad_token: 5'],
    [
      'a list that is none',
      { 'tokenizer_config.json': { extra_special_tokens: 'a' } },
      'has a malformed extra_special_tokens: "a"',
    ],
    [
      'an id in place of a token',
      { 'tokenizer_config.json': { added_tokens_decoder: { 290: '<a>' } } },
      'has a malformed added_tokens_decoder: {"290":"<a>"}',
    ],
    [
      'special tokens as plain text',
      { 'tokenizer_config.json': { split_special_tokens: true } },
      'has split_special_tokens',
    ],
    [
      'another file',
      { 'tokenizer_config.json': { fast_tokenizer_files: ['tokenizer.4.0.0.json'] } },
      'names "tokenizer.4.0.0.json"',
    ],
    [
      'code',
      { 'tokenizer_config.json': { auto_map: { AutoTokenizer: [null, 'own.Tokenizer'] } } },
      'makes its tokenizer by code of its own, own.Tokenizer',
    ],
    [
      'a class with components of its own',
      { 'tokenizer_config.json': { tokenizer_class: 'T5TokenizerFast' } },
      'has the tokenizer_class T5Tokenizer, which does not take the components',
    ],
    [
      'a class of config.json with such',
      { 'config.json': { model_type: 'roformer' } },
      'is loaded by the class RoFormerTokenizer',
    ],
    [
      'a setting that is neither true nor false',
      { 'tokenizer_config.json': { tokenizer_class: 'GPT2Tokenizer', add_prefix_space: 1 } },
      'has a add_prefix_space of 1',
    ],
    ['a list as config.json', { 'config.json': [] }, 'config.json: is not a JSON object'],
  ] as const)('are refused for %s', async (_, files, message) => {
    const found = await rejected(files);
    expect(found).toMatch(/^MTL_DATA_TOKENIZER /);
    expect(found).toContain(message);
  });

  it('name special tokens, as chat templates have them', async () => {
    const tokenizer = await open({
      'tokenizer.json': bytes,
      'special_tokens_map.json': { eos_token: { content: '<e>', lstrip: true } },
      'tokenizer_config.json': { bos_token: '<b>', image_token: '<i>' },
    });
    expect(tokenizer.specialTokens).toMatchObject({ bos_token: '<b>', image_token: '<i>', eos_token: '<e>' });
    expect(tokenizer.encode('<b><i><e>')).toEqual([290, 292, 291]);
  });

  it('name the class that would ignore a pre-tokenizer', async () => {
    const pre_tokenizer = {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Digits', individual_digits: true },
        (bytes as { pre_tokenizer?: object }).pre_tokenizer,
      ],
    };
    const config = { tokenizer_class: 'GPT2Tokenizer' };
    const files = { 'tokenizer.json': { ...bytes, pre_tokenizer }, 'tokenizer_config.json': config };
    const found = await rejected(files);
    expect(found).toContain('Digits');
    expect(found).toContain('which transformers 5 ignores: it loads the tokenizer as GPT2Tokenizer');
    const general = { ...files, 'tokenizer_config.json': { tokenizer_class: 'PreTrainedTokenizerFast' } };
    expect(await rejected(general)).toBe('taken');
  });

  it('are loaded by the class that AutoTokenizer takes for a model', () => {
    expect(Object.fromEntries(classesByModelType)).toEqual(classes);
    expect([...typesWithWrongClass]).toEqual(wrong);
  });
});
