import { choiceOption, functionOption, type OptionCheck, wholeNumberOption } from '@mtl/errors/options';
import type { WritableDtype } from '@mtl/formats';

const storedDtypes: Readonly<Record<WritableDtype, true>> = { F32: true, BF16: true, F16: true };

/** The dtype that weights are stored as. */
export const storedDtypeOption: OptionCheck<false> = choiceOption(Object.keys(storedDtypes));

/** The iteration of a checkpoint. */
export const iterationOption: OptionCheck<false> = wholeNumberOption(0);

/** A function that gets notices. */
export const noticesOption: OptionCheck<false> = functionOption;
