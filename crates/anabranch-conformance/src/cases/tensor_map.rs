//! Tensor maps: what can be described.

use crate::case::{Case, Need, Verdict, equal, holds, status_of};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::{EncodedTensorMap, TiledTensor};
use anabranch::{
    Buffer, Capabilities, DevicePointer, Status, Stream, TensorDataType, TensorElement, TensorFill, TensorLayout,
    TensorMap, TensorMapMut, TensorPromotion, TensorSwizzle,
};

const MAPS: &[Need] = &[Need::Capability(Capabilities::TENSOR_MAPS)];

pub(super) const CASES: &[Case] = &[
    Case::new("tensor_map.of_every_type", "S10", of_every_type).needs(MAPS),
    Case::new("tensor_map.of_every_rank_and_layout", "S10", of_every_rank_and_layout).needs(MAPS),
    Case::new("tensor_map.of_the_largest_extents", "S10", of_the_largest_extents).needs(MAPS),
    Case::new("tensor_map.refused_by_the_driver", "S10", refused_by_the_driver).needs(MAPS),
];

fn of_type<T: TensorElement>(stream: &Stream) -> Verdict {
    let mut memory: Buffer<T> = stream.allocate_zeroed(32 * 32)?;
    let layout = TensorLayout::new([32, 32], [16, 4]);
    let map = format!("{:?}", TensorMap::new(&memory, &layout)?);
    holds(&map, map.starts_with("TensorMap"))?;
    TensorMapMut::new(&mut memory, &layout.with_promotion(TensorPromotion::Bytes256))?;
    Ok(())
}

fn of_every_type(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    of_type::<u8>(&stream)?;
    of_type::<u16>(&stream)?;
    of_type::<u32>(&stream)?;
    of_type::<i32>(&stream)?;
    of_type::<u64>(&stream)?;
    of_type::<i64>(&stream)?;
    of_type::<f32>(&stream)?;
    of_type::<f64>(&stream)
}

fn of_every_rank_and_layout(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let memory = stream.allocate_zeroed::<f32>(8 * 4 * 4 * 4 * 4)?;
    for rank in 1..=5 {
        let (mut extents, mut boxes) = (vec![4u64; rank], vec![2u32; rank]);
        (extents[0], boxes[0]) = (8, 8);
        TensorMap::new(&memory, &TensorLayout::new(extents.clone(), boxes.clone()))?;
        let layout = TensorLayout::new(extents, boxes).with_element_strides(vec![2; rank]);
        TensorMap::new(&memory, &layout.with_fill(TensorFill::NotANumber))?;
    }
    let gaps = TensorLayout::new([5, 3], [4, 1]).with_strides([64]);
    for swizzle in [TensorSwizzle::None, TensorSwizzle::Bytes32, TensorSwizzle::Bytes64, TensorSwizzle::Bytes128] {
        TensorMap::new(&memory, &gaps.clone().with_swizzle(swizzle))?;
    }
    Ok(())
}

/// A tensor of device memory. The driver is asked, and not the library, which checks more.
fn tensor(address: DevicePointer) -> TiledTensor {
    TiledTensor {
        data_type: TensorDataType::F32,
        address,
        extents: vec![16, 4],
        strides: vec![64],
        box_extents: vec![8, 2],
        element_strides: vec![1, 1],
        swizzle: TensorSwizzle::None,
        promotion: TensorPromotion::None,
        fill: TensorFill::Zero,
    }
}

fn encode(environment: &Environment, tensor: &TiledTensor) -> Result<EncodedTensorMap, Status> {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    driver.tensor_map_encode(&context.into(), tensor).map_err(|failure| failure.status)
}

fn of_the_largest_extents(environment: &Environment) -> Verdict {
    let memory = environment.stream()?.allocate_zeroed::<f32>(64)?;
    let large = TiledTensor {
        extents: vec![1 << 32, 1 << 32],
        strides: vec![(1 << 40) - 16],
        box_extents: vec![256, 256],
        element_strides: vec![8, 8],
        ..tensor(memory.device_pointer())
    };
    holds("nothing is used by describing it", encode(environment, &large).is_ok())
}

fn refused_by_the_driver(environment: &Environment) -> Verdict {
    let memory = environment.stream()?.allocate_zeroed::<f32>(64)?;
    let good = || tensor(memory.device_pointer());
    holds("what is good", encode(environment, &good()).is_ok())?;
    let wrong = [
        ("an address", TiledTensor { address: memory.device_pointer().byte_add(8), ..good() }),
        ("an extent of 0", TiledTensor { extents: vec![16, 0], ..good() }),
        ("too large an extent", TiledTensor { extents: vec![16, (1 << 32) + 1], ..good() }),
        ("a stride", TiledTensor { strides: vec![72], ..good() }),
        ("too large a stride", TiledTensor { strides: vec![1 << 40], ..good() }),
        ("an extent of the box of 0", TiledTensor { box_extents: vec![8, 0], ..good() }),
        ("too large an extent of the box", TiledTensor { box_extents: vec![8, 257], ..good() }),
        ("a row of the box", TiledTensor { box_extents: vec![3, 2], ..good() }),
        ("an element stride of 0", TiledTensor { element_strides: vec![1, 0], ..good() }),
        ("too large an element stride", TiledTensor { element_strides: vec![1, 9], ..good() }),
        ("a swizzle", TiledTensor { box_extents: vec![16, 2], swizzle: TensorSwizzle::Bytes32, ..good() }),
        ("a fill", TiledTensor { data_type: TensorDataType::I32, fill: TensorFill::NotANumber, ..good() }),
        (
            "no dimensions",
            TiledTensor { extents: vec![], strides: vec![], box_extents: vec![], element_strides: vec![], ..good() },
        ),
    ];
    for (what, tensor) in &wrong {
        equal(what, encode(environment, tensor).map(drop), Err(Status::INVALID_VALUE))?;
    }
    let (driver, context) = (environment.device().driver(), environment.context().live());
    equal("what is good", status_of(driver.tensor_map_encode(&context.into(), &good()).map(drop)), Status::SUCCESS)
}
