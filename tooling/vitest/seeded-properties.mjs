// A module that the test files of every package with fast-check load. It makes properties run with the same
// cases every time, so that only the last change can cause a new failure. MTL_TEST_SEED=NUMBER selects
// different cases.
import fc from 'fast-check';

const { MTL_TEST_SEED = '1' } = process.env;
if (!/^\d{1,9}$/.test(MTL_TEST_SEED)) throw new Error(`MTL_TEST_SEED=${MTL_TEST_SEED} is no whole number`);
fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(MTL_TEST_SEED) });
