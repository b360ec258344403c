// Every package that uses fast-check has its test files load this module. Properties are tested with the same
// cases in every run, so that a new failure can only be caused by the last change. MTL_TEST_SEED=NUMBER
// selects other cases.
import fc from 'fast-check';

const { MTL_TEST_SEED = '1' } = process.env;
if (!/^\d{1,9}$/.test(MTL_TEST_SEED)) throw new Error(`MTL_TEST_SEED=${MTL_TEST_SEED} is no whole number`);
fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(MTL_TEST_SEED) });
