import { expect, it } from 'vitest';
import { rememberWords } from './remember-words.js';

it('computes short words once, long ones each time, and forgets beyond 65,536', () => {
  const computed: string[] = [];
  const lengthOf = rememberWords((word) => {
    computed.push(word);
    return word.length;
  });
  expect([lengthOf('one'), lengthOf('three'), lengthOf('one'), lengthOf('\ud800')]).toEqual([3, 5, 3, 1]);
  expect([lengthOf('\ud800'), lengthOf('\ufffd')]).toEqual([1, 1]);
  expect(computed).toEqual(['one', 'three', '\ud800', '\ufffd']);
  computed.length = 0;
  const long = 'x'.repeat(65);
  expect([lengthOf(long), lengthOf(long)]).toEqual([65, 65]);
  expect(computed).toEqual([long, long]);
  for (let i = 0; i < 1 << 16; i++) lengthOf(`word ${i}`);
  computed.length = 0;
  lengthOf('one');
  expect(computed).toEqual(['one']);
});
