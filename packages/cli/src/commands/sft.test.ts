import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseFlags } from '@mtl/configuration';
import { afterAll, describe, expect, it } from 'vitest';
import { checkSftFlags, flagsOfModel } from './sft.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-sft-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('flagsOfModel', () => {
  it('writes --model out, by what is in the directory', () => {
    expect(flagsOfModel(['--lr', '1', '--model', directory, '--bf16'])).toEqual([
      '--lr',
      '1',
      '--load',
      directory,
      '--finetune',
      '--bf16',
    ]);
    writeFileSync(join(directory, 'config.json'), '{}');
    expect(flagsOfModel([`--model=${directory}`])).toEqual(['--load-hf', directory]);
    expect(flagsOfModel(['--model', 'org/name@v1'])).toEqual(['--load-hf', 'org/name@v1']);
    expect(flagsOfModel(['--lr', '1'])).toEqual(['--lr', '1']);
  });

  it.each([
    ['gpt2', 'named with its organization, as in openai-community/gpt2'],
    ['/no/such/path', '^check the path$'],
    ['./own', '^check the path$'],
  ])('says what to do about %s, which is no directory', (name, remedy) => {
    expect(() => flagsOfModel(['--model', name])).toThrow(
      expect.objectContaining({ code: 'MTL_MODEL_NONE', remedy: expect.stringMatching(remedy) }),
    );
  });

  it.each([
    [['--model'], 'MTL_FLAG_VALUE_MISSING'],
    [['--model', '--bf16'], 'MTL_FLAG_VALUE_MISSING'],
    [['--model', 'a', '--model=b'], 'MTL_FLAG_REPEATED'],
    [['--model', 'a', '--load', 'b'], 'MTL_FLAG_CONFLICT'],
    [['--load_hf=b', '--model', 'a'], 'MTL_FLAG_CONFLICT'],
  ])('refuses %j', (argv, code) => {
    expect(() => flagsOfModel(argv)).toThrow(expect.objectContaining({ code }));
  });
});

describe('checkSftFlags', () => {
  it.each([
    [[], '--model and --train-data are missing'],
    [['--train-data', 'a.jsonl'], '--model is missing'],
    [['--load-hf', 'a'], '--train-data is missing'],
    [['--load', 'a', '--finetune'], '--train-data is missing'],
  ])('refuses %j', (argv, message) => {
    expect(() => checkSftFlags(parseFlags(argv))).toThrow(message);
  });

  it('takes a model with conversations, and a run to go on with', () => {
    checkSftFlags(parseFlags(['--load-hf', 'a', '--train-data', 'a.jsonl']));
    checkSftFlags(parseFlags(['--load', 'a']));
  });
});
