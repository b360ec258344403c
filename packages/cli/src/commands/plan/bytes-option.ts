import { ConfigurationError } from '@mtl/errors';
import { Option } from 'commander';

const units: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

/** The least memory that can be meant: less is a number without its unit. */
const least = 2 ** 20;

/** An option that takes a number of bytes, with or without a unit. */
export function bytesOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser((value: string) => {
    const [, number, unit = ''] = /^([\d.]+(?:e\d+)?) ?([A-Za-z]*)$/.exec(value.trim()) ?? [];
    const bytes = number === undefined ? Number.NaN : Number(number) * (units[unit] ?? Number.NaN);
    if (Number.isFinite(bytes) && bytes >= least) return Math.floor(bytes);
    const name = /--[a-z-]+/.exec(flags)![0];
    throw new ConfigurationError('MTL_FLAG_VALUE', `${name} ${value} cannot be used`, {
      expected: 'bytes, 1 MiB or more: 80e9, 80GB or 80GiB',
      ...(bytes > 0 ? { remedy: `pass ${name} ${value}GiB` } : {}),
    });
  });
}
