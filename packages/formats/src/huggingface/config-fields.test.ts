import { expect, it } from 'vitest';
import { readConfigFields, size, truth, writeConfigFields } from './config-fields.js';
import { JsonFields } from './json-fields.js';
import { modelTypes } from './model-types.js';

const table = [
  size('layers', ['n_layer', 'num_layers']),
  size('width', ['width'], ({ layers }) => 10 * (layers as number)),
  {
    ...truth('isTied', 'tied', true),
    alsoWritten: ['tie'],
    check: (value: unknown) => (value === true ? undefined : 'true'),
  },
];
const read = (values: Record<string, unknown>) =>
  readConfigFields(new JsonFields('config.json', values), table);

it('reads and writes a property of one line', () => {
  expect(read({ num_layers: 3 })).toEqual({ layers: 3, width: 30, isTied: true });
  expect(read({ n_layer: 2, num_layers: 3, width: 5 })).toEqual({ layers: 2, width: 5, isTied: true });
  const written = writeConfigFields({ layers: 2, width: 5, isTied: true, other: 1 }, table);
  expect(written).toEqual({ n_layer: 2, width: 5, tied: true, tie: true });
});

it.each([
  [{}, 'n_layer is missing', 'a positive integer'],
  [{ num_layers: 0 }, 'num_layers is 0', 'a positive integer'],
  [{ n_layer: 1, tied: false }, 'tied is false', 'true'],
])('refuses %j', (values, problem, expected) => {
  expect(() => read(values)).toThrow(
    expect.objectContaining({
      code: 'MTL_HUGGING_FACE_CONFIG',
      message: `config.json: ${problem}`,
      expected,
    }),
  );
});

it('states each property and each field of config.json once', () => {
  for (const { fields } of Object.values(modelTypes)) {
    const keys = fields.map(({ key }) => key);
    const names = fields.flatMap(({ names }) => names.slice(0, 1));
    for (const list of [keys, names]) expect(new Set<string>(list).size).toBe(list.length);
  }
});
