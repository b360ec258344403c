import { expect, it } from 'vitest';
import { endAtSentence } from './sample-prompts.js';

it.each([
  ['We will go. We are 3.5 times', 'We will go.'],
  ['He said "we will go." And then', 'He said "we will go."'],
  ['One! Two? Three', 'One! Two?'],
  ['Whole.', 'Whole.'],
  ['政府は行く。しかし', '政府は行く。'],
  // the complete sentences are less than a third of the text
  ['Yes. and so on without any end', 'Yes. and so on without any end ...'],
  ['def main(argv):\n  return ', 'def main(argv):\n  return ...'],
  // an incomplete character at the end, or no text
  ['We go \uFFFD', 'We go ...'],
  ['', ' ...'],
])('ends a text at its last whole sentence: %j', (text, expected) => {
  expect(endAtSentence(text)).toBe(expected);
});
