import { describe, expect, it } from 'vitest';
import { bertPresets } from '../presets/bert-presets.js';
import { gptPresets } from '../presets/gpt-presets.js';
import {
  configFileJsonSchema,
  defaultFlags,
  findFlagFacts,
  flagNames,
  flagSchema,
} from '../schema/flag-schema.js';
import { modelOfFlag } from '../schema/model-of-flag.js';
import { formatHelp } from './program-help.js';

const help = formatHelp({ program: 'npm run gpt-train --', description: 'Trains a GPT.' });
const bertHelp = formatHelp({ program: 'bert-train', description: 'Pretrains a BERT.', model: 'bert' });

describe('formatHelp', () => {
  it('has every flag and preset of the model and a text for each, within 100 columns', () => {
    for (const [text, model, presets] of [
      [help, 'gpt', Object.keys(gptPresets)],
      [bertHelp, 'bert', Object.keys(bertPresets)],
    ] as const) {
      for (const name of flagNames) {
        const belongs = [undefined, model].includes(modelOfFlag(name));
        expect(new RegExp(`^ {2}--${name}( |$)`, 'm').test(text), name).toBe(belongs);
      }
      for (const preset of presets) expect(text).toContain(preset);
      for (const line of text.split('\n')) expect(line.length, line).toBeLessThanOrEqual(100);
    }
  });

  it('shows values, choices and defaults', () => {
    expect(help).toMatch(/^ {2}--num-layers N +Transformer layers\.$/m);
    expect(help).toMatch(/^ {2}--attention-dropout X .*\[0\.1\]$/m);
    expect(help).toMatch(/^ {2}--device cpu\|cuda .*\[cpu\]$/m);
    expect(help).toContain('[2^32]');
    const unwrapped = help.replace(/\s+/g, ' ');
    expect(unwrapped).toContain(
      '[4 x --hidden-size; with --swiglu 8/3 x, down to a multiple of 64, at least 64]',
    );
    expect(unwrapped).toContain('One of constant, linear, cosine, inverse-square-root, WSD. [linear]');
  });
});

describe('the flag schema', () => {
  it('has a description, and a default it accepts itself, for every flag', () => {
    for (const name of flagNames) expect(findFlagFacts(name).description, name).toMatch(/\.$/);
    expect(flagSchema.safeParse(defaultFlags).error).toBeUndefined();
  });

  it('refuses keys that are no flags', () => {
    expect(flagSchema.safeParse({ 'num-layer': 1 }).success).toBe(false);
  });

  it('gives editors a JSON Schema of the file format', () => {
    expect(configFileJsonSchema()).toMatchObject({
      type: 'object',
      additionalProperties: false,
      properties: {
        'num-layers': { type: 'integer', minimum: 1, description: 'Transformer layers.' },
        'lr-decay-style': { enum: ['constant', 'linear', 'cosine', 'inverse-square-root', 'WSD'] },
      },
    });
  });
});

it.each([60, 80, 100])('fits a terminal of %d columns', (columns) => {
  const lines = formatHelp({ program: 'gpt-train', description: 'Trains a GPT.', columns }).split('\n');
  // a line is not counted if it contains only a flag and its placeholder, because such a line cannot be
  // wrapped
  const tooLong = lines.filter((line) => line.length > columns && /\S \S/.test(line.trim()));
  expect(tooLong.filter((line) => !/^ {2}--\S+(?: \S+)*$/.test(line))).toEqual([]);
});
