import { createTokenizer } from '@mtl/tokenizers';
import { describe, expect, it } from 'vitest';
import { encodePair } from '../encode-text.js';
import { accuracies, choiceRows } from './choice-task.js';

describe('questions, worded by the definitions of lm-evaluation-harness', () => {
  it('of HellaSwag', () => {
    const row = {
      activity_label: 'Baking',
      ctx_a: 'A cook stands. [header] Now [title] begin',
      ctx_b: 'the Cook',
      endings: ['  bakes [step] bread.', 'sings.', 'öffnet', 'x'],
      label: '1',
    };
    expect(choiceRows.hellaswag!(row)).toEqual({
      contexts: Array(4).fill('Baking: A cook stands. Now. begin The cook'),
      continuations: [' bakes bread.', ' sings.', ' öffnet', ' x'],
      lengths: [12, 6, 6, 1],
      gold: 1,
    });
  });

  it('of ARC, in both forms', () => {
    const question = {
      contexts: Array(2).fill('Question: Why?\nAnswer:'),
      continuations: [' so', ' thus'],
      lengths: [2, 4],
      gold: 1,
    };
    const choices = [
      { text: 'so', label: 'A' },
      { text: 'thus', label: 'B' },
    ];
    expect(choiceRows['arc-easy']!({ question: { stem: 'Why?', choices }, answerKey: 'B' })).toEqual(
      question,
    );
    const listed = { text: ['so', 'thus'], label: ['1', '2'] };
    expect(choiceRows['arc-challenge']!({ question: 'Why?', choices: listed, answerKey: '2' })).toEqual(
      question,
    );
  });

  it('of PIQA and WinoGrande', () => {
    expect(choiceRows.piqa!({ goal: 'Dry', sol1: 'sun', sol2: 'rain', label: 0 })).toEqual({
      contexts: Array(2).fill('Question: Dry\nAnswer:'),
      continuations: [' sun', ' rain'],
      lengths: [3, 4],
      gold: 0,
    });
    const row = {
      sentence: 'The cup fell off the shelf as _ was loose.',
      option1: 'cup',
      option2: 'shelf',
      answer: '2',
    };
    expect(choiceRows.winogrande!(row)).toEqual({
      contexts: ['The cup fell off the shelf as cup', 'The cup fell off the shelf as shelf'],
      continuations: Array(2).fill(' was loose.'),
      lengths: undefined,
      gold: 1,
    });
  });

  it.each([
    [
      'hellaswag',
      { activity_label: 'a', ctx_a: 'b', ctx_b: 'c', endings: ['d'], label: 0 },
      'has no endings',
    ],
    ['piqa', { goal: 'a', sol1: 'b', sol2: 'c' }, 'has no number under "label"'],
    ['piqa', { goal: 'a', sol1: 'b', sol2: 'c', label: 2 }, 'names no answer'],
    ['winogrande', { sentence: 'a', option1: 'b', option2: 'c', answer: '1' }, 'has no "_"'],
    [
      'arc-easy',
      { question: 'a', choices: { text: ['b', 'c'], label: ['A', 'B'] }, answerKey: 'C' },
      'names no',
    ],
    ['arc-easy', { question: 'a', choices: null, answerKey: 'A' }, 'has no labels of choices'],
    ['arc-easy', { question: { stem: 'a', choices: [null, null] }, answerKey: 'A' }, 'has no labels of'],
    ['arc-easy', { question: { stem: 'a', choices: 5 }, answerKey: 'A' }, 'has no labels of choices'],
  ])('refuses what is not of %s', (task, row, message) => {
    expect(() => choiceRows[task]!(row)).toThrow(message);
  });
});

it('compares sums, and sums by characters; the first of equals counts', () => {
  const question = { contexts: ['', ''], continuations: ['', ''], lengths: [2, 8], gold: 1 };
  const scores = Float64Array.from([-2, -4, -4, -4, -9, -5]);
  // by the sums, the model answers the first question wrong, the second wrong because of a tie, and the third
  // right; by the sums per character, it answers all questions right
  expect(accuracies([question, question, question], scores)).toEqual({ acc: 1 / 3, acc_norm: 1 });
  expect(accuracies([{ ...question, lengths: undefined }], scores)).toEqual({ acc: 0 });
});

it('encodes context and continuation as one text; spaces before the answer are its own', async () => {
  const tokenizer = await createTokenizer({ type: 'GPT2BPETokenizer' });
  const whole = [...tokenizer.encode('The cat sat')];
  expect(encodePair(tokenizer, 'The cat', ' sat')).toEqual({
    context: whole.slice(0, 2),
    target: whole.slice(2),
  });
  expect(encodePair(tokenizer, 'The cat ', 'sat')).toEqual({
    context: whole.slice(0, 2),
    target: whole.slice(2),
  });
  expect(encodePair(tokenizer, '', 'The')).toEqual({ context: [tokenizer.eod], target: whole.slice(0, 1) });
});
