import fc from 'fast-check';
import { expect, it } from 'vitest';
import { layerListText, layersPattern, readLayerList } from './layer-lists.js';

const times = (list: readonly number[], count: number): number[] => new Array(count).fill(list).flat();

it.each<[string, number | number[], string]>([
  ['1', 1, '1'],
  ['24', 24, '24'],
  ['([0]*3+[1]*58)', [0, 0, 0, ...times([1], 58)], '[0]*3+[1]*58'],
  ['([0]+[1]*26)', [0, ...times([1], 26)], '[0]+[1]*26'],
  ['[0,1]*2', [0, 1, 0, 1], '[0,1]*2'],
  ['[0, 1, 0, 1]', [0, 1, 0, 1], '[0,1]*2'],
  ['2*[1]', [1, 1], '[1]*2'],
  ['[1]*2*3', times([1], 6), '[1]*6'],
  ['([0] + [1] * 2) * 2', [0, 1, 1, 0, 1, 1], '[0,1,1]*2'],
  ['([0]+([1]))', [0, 1], '[0,1]'],
  ['[]*3+[1,]', [1], '[1]'],
  ['[1,0,0]+[1,1]', [1, 0, 0, 1, 1], '[1]+[0]*2+[1]*2'],
  ['[0,1,0,0,1]', [0, 1, 0, 0, 1], '[0,1]+[0]*2+[1]'],
])('reads %s', (text, layers, canonical) => {
  expect(readLayerList(text)).toEqual(layers);
  expect(layerListText(layers)).toBe(canonical);
});

it.each([
  ...['', '0', '-1', '1.5', 'two', '[]', '[]*2', '[1]*0', '[2]', '[1', '1]', '([1]', '[1])', '[1]*', '*[1]'],
  ...['[1]+', '[1]+2', '2*3', '2+[1]', '[1] [1]', '[,1]', '[1 0]', '[1]*[0]', '[1]*1.5', '[-1]', '[True]'],
  ...['[1]*10001', '[1]*99999999999', '([1]*5000)+([1]*5001)', '[1]-[0]', '__import__("os")', '[1]*2 # x'],
])('does not read %j', (text) => {
  expect(readLayerList(text)).toBeUndefined();
});

it('writes every list in one way, which it reads back', () => {
  const list = fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 40 });
  const layers = fc.oneof(
    list,
    fc.tuple(list, fc.integer({ min: 1, max: 5 })).map((of) => times(...of)),
  );
  fc.assert(
    fc.property(layers, (layers) => {
      const text = layerListText(layers);
      expect(readLayerList(text)).toEqual(layers);
      expect(text).toMatch(layersPattern);
      expect(readLayerList(`([${layers.join(', ')}])`)).toEqual(layers);
    }),
  );
});
