(module
  (memory (export "memory") 1)
  ;; The sum of a[i] * b[i] for `count` float32 values, four at a time; count is a multiple of four.
  (func (export "dot") (param $a i32) (param $b i32) (param $count i32) (result f32)
    (local $sums v128)
    (local $end i32)
    (local.set $end (i32.add (local.get $a) (i32.shl (local.get $count) (i32.const 2))))
    (block $done
      (loop $more
        (br_if $done (i32.ge_u (local.get $a) (local.get $end)))
        (local.set $sums
          (f32x4.add
            (local.get $sums)
            (f32x4.mul (v128.load (local.get $a)) (v128.load (local.get $b)))))
        (local.set $a (i32.add (local.get $a) (i32.const 16)))
        (local.set $b (i32.add (local.get $b) (i32.const 16)))
        (br $more)))
    (f32.add
      (f32.add (f32x4.extract_lane 0 (local.get $sums)) (f32x4.extract_lane 1 (local.get $sums)))
      (f32.add (f32x4.extract_lane 2 (local.get $sums)) (f32x4.extract_lane 3 (local.get $sums))))))
