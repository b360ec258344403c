// Fits the constants of hardware profiles to the rows that paper-rows.ts marks, and writes them to the
// profiles. Held-out rows are not read. Every run starts from the values below, so repeated runs give the
// same result. Usage: npm run dev -- papers-fit
import { readFileSync, writeFileSync } from 'node:fs';
import {
  type Constant,
  type Constants,
  computeCost,
  fits,
  minimize,
  setConstant,
} from '../../../packages/cost-model/test/support/fits.js';

/** The GPUs without measured rows. They get copies of the A100's constants. */
const copies = {
  from: 'hardware/a100-80gb',
  keys: [
    ['memory', 'efficiency'],
    ['memory', 'scoresEfficiency'],
    ['linkInside', 'efficiency'],
  ],
  to: ['hardware/v100-32gb', 'hardware/h100-80gb', 'hardware/h200-141gb'],
} as const;

for (const fit of fits) {
  const values = minimize(
    fit.start.map(([, start, most]) => ({ start, ...(most === undefined ? {} : { most }) })),
    (point) => computeCost(fit, point),
  );
  const text = read(fit.file);
  for (const [i, [keys, start]] of fit.start.entries()) {
    const value = Number(values[i]!.toPrecision(3));
    setConstant(text, keys, {
      value,
      source: `npm run dev -- papers-fit, from ${start}: ${fit.description}`,
      fitted: true,
    });
    console.log(`${fit.file} ${keys.join('.')}: ${start} -> ${value}`);
  }
  write(fit.file, text);
  if (fit.file === copies.from) copyToOthers(text);
}

function copyToOthers(fitted: Constants): void {
  for (const file of copies.to) {
    const text = read(file);
    for (const keys of copies.keys) {
      const { value } = keys.reduce((part: unknown, key) => (part as Constants)[key], fitted) as Constant;
      setConstant(text, keys, { value, source: 'assumed: as fitted on a100-80gb' });
    }
    write(file, text);
  }
}

function locateProfile(file: string): URL {
  return new URL(`../../../packages/cost-model/profiles/${file}.json`, import.meta.url);
}

function read(file: string): Constants {
  return JSON.parse(readFileSync(locateProfile(file), 'utf8')) as Constants;
}

function write(file: string, constants: Constants): void {
  writeFileSync(locateProfile(file), `${JSON.stringify(constants, null, 2)}\n`);
}
