import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

type Triple = readonly [number, number, number];

/**
 * Severe forms of the three kinds of colour blindness, of linear RGB (Machado, Oliveira and Fernandes 2009).
 */
const sight: Readonly<Record<string, readonly Triple[]>> = {
  everybody: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

const toXyz: readonly Triple[] = [
  [0.4124, 0.3576, 0.1805],
  [0.2126, 0.7152, 0.0722],
  [0.0193, 0.1192, 0.9505],
];
const white: Triple = [0.9505, 1, 1.089];

const times = (matrix: readonly Triple[], vector: Triple): Triple =>
  matrix.map((row) => row.reduce((sum, value, at) => sum + value * vector[at]!, 0)) as unknown as Triple;

/** Returns the linear RGB of `#rrggbb`. */
function linear(colour: string): Triple {
  return [1, 3, 5].map((at) => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }) as unknown as Triple;
}

const luminance = (colour: string): number => times(toXyz, linear(colour))[1];

function contrast(one: string, other: string): number {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

/** Returns the CIE L*a*b* of a colour as an eye sees it: a distance of 2 is just visible. */
function lab(colour: string, seenBy: readonly Triple[]): Triple {
  const seen = times(seenBy, linear(colour)).map((value) => Math.min(1, Math.max(0, value)));
  const [x, y, z] = times(toXyz, seen as unknown as Triple).map((value, at) => {
    const part = value / white[at]!;
    return part > 0.008856 ? Math.cbrt(part) : 7.787 * part + 16 / 116;
  }) as unknown as Triple;
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

const css = readFileSync(new URL('../page/page.css', import.meta.url), 'utf8');
const [light, dark] = css.split('@media (prefers-color-scheme: dark)') as [string, string];
const colourIn = (theme: string, name: string): string =>
  new RegExp(`${name}: (#[0-9a-f]{6});`).exec(theme)?.[1] ?? 'none';

describe.each([
  ['light', light],
  ['dark', dark],
])('colours of runs on %s ground', (_, theme) => {
  const colours = Array.from({ length: 8 }, (_, index) => colourIn(theme, `--run-${index}`));

  it('stand out from the ground', () => {
    for (const colour of colours) {
      expect(contrast(colour, colourIn(theme, '--surface')), colour).toBeGreaterThanOrEqual(3);
    }
  });

  it.each(Object.entries(sight))('are told apart, as %s sees them', (_, seenBy) => {
    for (const [at, one] of colours.entries()) {
      for (const other of colours.slice(at + 1)) {
        const [a, b] = [lab(one, seenBy), lab(other, seenBy)];
        expect(Math.hypot(...a.map((value, axis) => value - b[axis]!)), `${one} ${other}`).toBeGreaterThan(
          20,
        );
      }
    }
  });

  it('are none of the greys of events', () => {
    for (const name of ['quiet', 'note', 'grave']) {
      const grey = lab(colourIn(theme, `--mark-${name}`), sight.everybody!);
      for (const colour of colours) {
        const [a, b] = [lab(colour, sight.everybody!), grey];
        expect(Math.hypot(...a.map((value, axis) => value - b[axis]!)), `${colour} ${name}`).toBeGreaterThan(
          20,
        );
      }
    }
  });
});
