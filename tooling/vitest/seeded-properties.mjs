// Set up in the test files of packages that use fast-check: properties are tried with the same cases in every
// run, so that one that fails says something about the last change. MTL_TEST_SEED=NUMBER tries other cases.
import fc from 'fast-check';

const { MTL_TEST_SEED = '1' } = process.env;
if (!/^\d{1,9}$/.test(MTL_TEST_SEED)) throw new Error(`MTL_TEST_SEED=${MTL_TEST_SEED} is no whole number`);
fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(MTL_TEST_SEED) });
