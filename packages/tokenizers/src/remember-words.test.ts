import { expect, it } from 'vitest';
import { rememberWords } from './remember-words.js';

it('computes short words once, long ones each time, and forgets beyond 65,536', () => {
  const computed: string[] = [];
  const measureLength = rememberWords((word) => {
    computed.push(word);
    return word.length;
  });
  expect([
    measureLength('one'),
    measureLength('three'),
    measureLength('one'),
    measureLength('\ud800'),
  ]).toEqual([3, 5, 3, 1]);
  expect([measureLength('\ud800'), measureLength('\ufffd')]).toEqual([1, 1]);
  expect(computed).toEqual(['one', 'three', '\ud800', '\ufffd']);
  computed.length = 0;
  const long = 'x'.repeat(65);
  expect([measureLength(long), measureLength(long)]).toEqual([65, 65]);
  expect(computed).toEqual([long, long]);
  for (let i = 0; i < 1 << 16; i++) measureLength(`word ${i}`);
  computed.length = 0;
  measureLength('one');
  expect(computed).toEqual(['one']);
});
